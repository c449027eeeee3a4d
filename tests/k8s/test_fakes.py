"""The fakes answer as the real servers do, where tests of other layers rely on it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from tests.k8s.fakes.api_server import NAMESPACES, PODS, TOKEN, FakeApiServer
from tests.k8s.fakes.objects import namespace, pod

PVCS = "/api/v1/persistentvolumeclaims"


def get(server: FakeApiServer, path: str, token: str = TOKEN):
    address = f"http://127.0.0.1:{server.port}{path}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def names(page):
    return [item["metadata"]["name"] for item in page["items"]]


def test_objects_are_read_one_by_one_and_by_namespace(server):
    server.put(PODS, pod("a", "ml"))
    server.put(PODS, pod("b", "web"))
    server.put(NAMESPACES, namespace("ml"))
    assert get(server, "/api/v1/namespaces/ml/pods/a")["metadata"]["namespace"] == "ml"
    assert names(get(server, "/api/v1/namespaces/web/pods")) == ["b"]
    assert get(server, "/api/v1/namespaces/ml")["kind"] == "Namespace"
    selected = "/api/v1/pods?fieldSelector=metadata.name=a,metadata.namespace=ml"
    assert names(get(server, selected)) == ["a"]


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        ("/api/v1/namespaces/web/pods/a", TOKEN, 404),
        (PVCS, TOKEN, 404),
        (PODS, "another", 401),
        (NAMESPACES, TOKEN, 403),
    ],
)
def test_refusals(server, path, token, status):
    server.put(PODS, pod("a", "ml"))
    server.forbidden = {NAMESPACES}
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(server, path, token)
    assert caught.value.code == status
    caught.value.close()


def test_pages_follow_one_another(server):
    for number in range(7):
        server.put(PODS, pod(f"p{number}"))
    seen, path = [], f"{PODS}?limit=3"
    while path:
        page = get(server, path)
        assert len(page["items"]) <= 3
        seen += names(page)
        more = page["metadata"].get("continue")
        path = f"{PODS}?limit=3&continue={more}" if more else ""
    assert sorted(seen) == [f"p{number}" for number in range(7)]
