"""Views of the pods: immutable, with memory of what ended, within bounds."""

from __future__ import annotations

from gpugauge.attribution import pod_store
from gpugauge.attribution.pod_store import KEEP_ENDED_SECONDS, PodStore
from gpugauge.attribution.pod_view import Container, Pod


class Clock:
    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


def make(name, *ids, **more):
    containers = tuple(Container(f"c{n}", one) for n, one in enumerate(ids))
    defaults = {"uid": f"uid-{name}", "namespace": "ml", "workload": name, "workload_kind": "Pod"}
    return Pod(**{**defaults, "name": name, "containers": containers, **more})


def test_a_view_does_not_change_and_is_shared_until_something_does():
    store = PodStore()
    store.replace([make("a", "1")])
    before = store.view()
    assert store.view() is before
    store.put(make("a", "1"))  # nothing new
    assert store.view() is before
    store.put(make("b", "2"))
    after = store.view()
    assert set(before.by_container) == {"1"}
    assert set(after.by_container) == {"1", "2"}
    assert after.version > before.version


def test_an_empty_list_still_makes_it_ready():
    store = PodStore()
    assert not store.view().ready
    version = store.version
    store.replace([])
    assert store.view().ready
    assert store.version == version + 1


def test_restarts_keep_a_few_previous_ids():
    store = PodStore()
    for number in range(7):
        store.put(make("a", f"id{number}"))
    held = set(store.view().by_container)
    assert held == {"id3", "id4", "id5", "id6"}
    assert store.view().by_container["id3"][1].name == "c0"


def test_the_previous_id_of_the_status_is_known_without_having_seen_it():
    store = PodStore()
    pod = make("a", "now")
    was = Container("c0", "now", previous_id="before")
    store.put(Pod(**{**{f: getattr(pod, f) for f in pod.__slots__}, "containers": (was,)}))
    assert store.view().by_container["before"][0].name == "a"


def test_ended_pods_are_found_for_a_while():
    clock = Clock()
    store = PodStore(clock=clock)
    store.replace([make("a", "1"), make("b", "2")])
    store.replace([make("b", "2")])
    view = store.view()
    assert view.ended == {"uid-a"}
    assert ("ml", "a") not in view.by_name
    assert view.by_container["1"][0].name == "a"
    clock.now += KEEP_ENDED_SECONDS - 1
    assert "1" in store.view().by_container
    clock.now += 2
    assert "1" not in store.view().by_container
    assert not store.view().ended


def test_a_pod_that_comes_back_is_present_again():
    store = PodStore()
    store.put(make("a", "1"))
    store.remove("uid-a")
    store.put(make("a", "2"))
    view = store.view()
    assert not view.ended
    assert view.by_container["1"][0].containers[0].container_id == "2"


def test_more_pods_than_a_node_can_have_are_refused_and_counted(monkeypatch):
    monkeypatch.setattr(pod_store, "PODS_LIMIT", 5)
    monkeypatch.setattr(pod_store, "ENDED_LIMIT", 3)
    store = PodStore()
    store.replace([make(f"p{n}") for n in range(11)])
    assert len(store.view().by_name) == 5
    assert store.refused == 6
    store.replace([])
    assert len(store.view().ended) == 3


def test_static_pods_are_found_by_hash_and_uid():
    store = PodStore()
    store.put(make("etcd", "1", config_hash="8e33"))
    view = store.view()
    assert view.by_uid["8e33"] is view.by_uid["uid-etcd"]
