"""The chart's roles: every call that the agent makes is allowed, and nothing else is."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

import pytest

from gpugauge.attribution.api_server import Refused
from gpugauge.attribution.cluster import Cluster
from gpugauge.attribution.cluster_writer import ClusterWriter
from gpugauge.attribution.request_path_reader import RequestPathReader
from gpugauge.errors import GpugaugeError
from tests.deploy.chart import NAMESPACE, RELEASE, ROOT, Object, Rendered, render
from tests.deploy.chart_place import (
    CONFIG_MAPS,
    NODES,
    SLICES,
    attached,
    let_work,
)
from tests.k8s.fakes.api_server import NAMESPACES, PODS
from tests.k8s.fakes.kubelet import Given
from tests.k8s.fakes.objects import NODE
from tests.k8s.fakes.waiting import until

Call = tuple[str, str, str, str, str]
"""Verb, API group, resource, namespace ("" for all), name ("" for none)."""

PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?"
)
VERBS = {"POST": "create", "PATCH": "patch"}
MODULES_THAT_ASK = {
    "pods.py",
    "off_switch_watch.py",
    "resource_slices.py",
    "request_path_reader.py",
    "cluster_writer.py",
}


def call(path: str, params: dict[str, str], method: str = "GET") -> Call:
    """Return what the API server asks its roles about a request."""
    found = PATH.fullmatch(path)
    assert found, path
    name = found["name"] or ""
    if method != "GET":
        verb = VERBS[method]
    elif name:
        verb = "get"
    else:
        verb = "watch" if params.get("watch") == "true" else "list"
        # A list of one name counts as one of that object.
        # (The fake server notes the namespace of the path beside the field.)
        field, _, one = params.get("fieldSelector", "").partition(",")[0].partition("=")
        name = one if field == "metadata.name" else ""
    return verb, found["group"] or "", found["resource"], found["namespace"] or "", name


class Recorder:
    """In place of a connection: notes what is asked, and has nothing."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()

    def get(self, path: str, params: dict[str, str], **_: Any) -> bytearray:
        self.calls.add(call(path, params))
        raise Refused(404, "Nothing is there.")

    def write(self, method: str, path: str, data: bytes, **_: Any) -> bytearray:
        self.calls.add(call(path, {}, method))
        return bytearray(b"{}")

    def close(self) -> None: ...


def allows(rule: Object, namespace: str, asked: Call) -> bool:
    """Whether a rule of a role of `namespace` ("" for a ClusterRole) allows a call."""
    verb, group, resource, where, name = asked
    return (
        verb in rule["verbs"]
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and namespace in ("", where)
        and name in rule.get("resourceNames", [name])
    )


def rules(rendered: Rendered) -> Iterable[tuple[str, Object]]:
    for kind in ("ClusterRole", "Role"):
        for role in rendered.all(kind):
            for rule in role["rules"]:
                yield role["metadata"].get("namespace", ""), rule


def single(rule: Object) -> Iterable[Object]:
    """Take a rule apart: one verb of one resource each."""
    parts = itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    for group, resource, verb in parts:
        yield rule | {"apiGroups": [group], "resources": [resource], "verbs": [verb]}


def compare(rendered: Rendered, calls: set[Call]) -> None:
    """Compare the roles with the calls, both ways."""
    held = list(rules(rendered))
    refused = [one for one in calls if not any(allows(rule, ns, one) for ns, rule in held)]
    assert not refused, f"not allowed: {refused}"
    unused = [
        (namespace, part)
        for namespace, rule in held
        for part in single(rule)
        if not any(allows(part, namespace, one) for one in calls)
    ]
    assert not unused, f"allowed and never used: {unused}"


def of_explain() -> set[Call]:
    """Every question that an explanation asks."""
    recorder = Recorder()
    reader = RequestPathReader(recorder)  # type: ignore[arg-type]
    asked = {
        "pod": ("ml", "a"), "events": ("ml", "involvedObject.name=a"), "node": (NODE,),
        "nodes": (), "node_pods": (NODE,), "runtime_class": ("nvidia",), "claim": ("ml", "c"),
        "slices": (), "daemon_sets": (),
    }  # fmt: skip
    methods = {name for name in vars(RequestPathReader) if not name.startswith("_")}
    assert methods == asked.keys(), "a question is new: does the role allow it?"
    for name, arguments in asked.items():
        with pytest.raises(GpugaugeError):
            getattr(reader, name)(*arguments)
    return recorder.calls


def of_writer(*names: str) -> set[Call]:
    """What is written."""
    recorder = Recorder()
    cluster = Cluster(node_name=NODE, asked=True)
    writer = ClusterWriter(cluster)
    writer._server = recorder  # type: ignore[assignment]
    asked = {
        "create_event": ("ml", {}),
        "patch_event": ("ml", "x", {}),
        "annotate_node": ("gpugauge.io/load-score", "1"),
    }
    methods = {name for name in vars(ClusterWriter) if not name.startswith("_")}
    assert methods - {"rest", "interrupt"} == asked.keys(), "does the role allow it?"
    for name in names:
        getattr(writer, name)(*asked[name])
    return recorder.calls


def test_what_the_running_agent_asks_is_what_its_role_allows(place) -> None:
    rendered = render(place.values())
    place.kubelet.given = [
        Given("ml", "a", "main", claims=[("ml", "claim", "gpu.nvidia.com", NODE, "gpu-0")])
    ]
    agent = place.start(rendered)
    agent.wait_ready()
    server = place.server
    watched = (PODS, NAMESPACES, NODES, CONFIG_MAPS, SLICES)
    # ResourceSlices are asked for once a process is there whose device a claim may have given.
    orders = place.start_pod("a")
    until(lambda: attached(agent, "a"), seconds=60)
    let_work(orders)
    until(lambda: all(server.count(path, "watch") for path in watched), seconds=60)
    agent.end()
    running = {call(path, params) for path, params in server.requests}
    compare(rendered, running)
    # Each part by its own value: what is not wanted is not allowed.
    for values, resource in (
        ({"rbac.namespaces": False}, "namespaces"),
        ({"rbac.resourceSlices": False}, "resourceslices"),
        ({"offSwitch.nodeAnnotation": False}, "nodes"),
        ({"offSwitch.configMap": False}, "configmaps"),
    ):
        compare(render(values), {one for one in running if one[2] != resource})
    explained = running | of_explain()
    compare(render({"rbac.explain": True}), explained)
    without_slices = {one for one in explained if one[2] != "resourceslices" or one[0] == "list"}
    compare(render({"rbac.explain": True, "rbac.resourceSlices": False}), without_slices)
    events = of_writer("create_event", "patch_event")
    compare(render({"podEvents.enabled": True}), running | events)
    compare(render({"loadScore.enabled": True}), running | of_writer("annotate_node"))


def test_no_other_module_asks_the_api_server() -> None:
    paths = re.compile(r"""["']/(?:api|apis)/v?[a-z0-9.{}]+/""")
    own_pages = re.compile(r"/api/v1/(?:explain|report|snapshot|findings|metrics|health|query)")
    found = set()
    for module in (ROOT / "src" / "gpugauge").rglob("*.py"):
        lines = [line for line in module.read_text().splitlines() if paths.search(line)]
        if any(not own_pages.search(line) for line in lines):
            found.add(module)
    # `kubectl gpugauge` asks with the rights of who runs it.
    of_agent = {one.name for one in found if "remote" not in one.parts}
    assert of_agent == MODULES_THAT_ASK


def test_no_role_where_nothing_is_asked() -> None:
    for values in ({"rbac.create": False}, {"settings": {"kubernetes": {"mode": "off"}}}):
        assert not list(rules(render(values)))


def test_roles_are_bound_to_the_account_of_the_pod() -> None:
    for values in (
        {},
        {"serviceAccount.name": "other"},
        {"serviceAccount": {"create": False, "name": "mine"}},
        {"serviceAccount.create": False},
    ):
        rendered = render(values)
        account = rendered.pod()["serviceAccountName"]
        made = [one["metadata"]["name"] for one in rendered.all("ServiceAccount")]
        assert made == (
            [] if values.get("serviceAccount") or "create" in str(values) else [account]
        )
        bindings = rendered.all("ClusterRoleBinding") + rendered.all("RoleBinding")
        assert len(bindings) == 2
        for binding in bindings:
            subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
            assert binding["subjects"] == [subject]
            kind = binding["roleRef"]["kind"]
            assert rendered.one(kind, binding["roleRef"]["name"])


def test_the_load_score_is_held_to_the_agents_own_node() -> None:
    values = {"loadScore.enabled": True}
    policy = render(values).one("ValidatingAdmissionPolicy")
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    assert rule["resources"] == ["nodes"] and rule["operations"] == ["UPDATE"]
    account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
    assert account in policy["spec"]["matchConditions"][0]["expression"]
    binding = render(values).one("ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    for other in (render(), render(values, kubernetes="1.29")):
        assert not other.all("ValidatingAdmissionPolicy")
    assert not render(values | {"loadScore.admissionPolicy": False}).all(
        "ValidatingAdmissionPolicy"
    )
