"""The watch of pods, against a server that does all that servers do."""

from __future__ import annotations

import dataclasses
import time

import pytest

from tests.k8s.conftest import SHORT
from tests.k8s.fakes.api_server import NAMESPACES, PODS
from tests.k8s.fakes.objects import NODE, container_id, namespace, pod, pod_uid, status
from tests.k8s.fakes.waiting import until


def names(store):
    return {pod.name for pod in store.view().by_name.values()}


def test_lists_this_node_then_follows_events(server, store, watch):
    server.put(PODS, pod("a"))
    server.put(PODS, pod("elsewhere", node="node-b"))
    watch()
    until(lambda: names(store) == {"a"})
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})
    server.delete(PODS, pod("a"))
    until(lambda: names(store) == {"b"})
    first = next(params for path, params in server.requests if path == PODS)
    assert first["fieldSelector"] == f"spec.nodeName={NODE}"
    assert first["resourceVersion"] == "0"
    begun = next(params for path, params in server.requests if path == PODS and "watch" in params)
    assert begun["allowWatchBookmarks"] == "true"
    assert begun["resourceVersion"] not in {"", "0"}
    assert server.count(PODS, "list") == 1


def test_a_watch_that_the_server_ends_goes_on_without_a_list(server, store, watch):
    server.put(PODS, pod("a"))
    watch(dataclasses.replace(SHORT, watch_seconds=1.0))
    until(lambda: names(store) == {"a"})
    until(lambda: server.count(PODS, "watch") >= 3)
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})
    assert server.count(PODS, "list") == 1


def test_bookmarks_carry_a_quiet_watch_over_compaction(server, store, watch):
    server.put(PODS, pod("a"))
    one = watch(dataclasses.replace(SHORT, watch_seconds=1.0))
    until(lambda: names(store) == {"a"})
    until(lambda: server.count(PODS, "watch") == 1)
    server.bookmark(PODS)
    time.sleep(0.3)  # it arrives while the first watch is open
    server.compact()
    until(lambda: server.count(PODS, "watch") >= 3)
    assert one.pods.lists == 1


def test_410_lists_again_and_finds_what_was_missed(server, store, watch):
    server.put(PODS, pod("a"))
    server.fail(PODS, "watch", "expired")
    server.put(PODS, pod("b"))
    one = watch()
    until(lambda: one.pods.lists == 2)
    server.fail(PODS, "watch", 410)
    server.put(PODS, pod("c"))
    server.stop()
    server.delete(PODS, pod("a"))
    server.compact()
    server.start()
    until(lambda: names(store) == {"b", "c"})
    assert one.pods.error == ""


def test_an_error_in_the_stream_is_a_reason_to_list_and_bookmarks_are_dropped(server, store, watch):
    server.put(PODS, pod("a"))
    server.fail(PODS, "watch", "error", times=2)
    one = watch()
    until(lambda: server.count(PODS, "watch") == 3)
    asked = [params.get("allowWatchBookmarks") for path, params in server.requests
             if path == PODS and "watch" in params]  # fmt: skip
    assert asked[:2] == ["true", None]
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})
    assert one.pods.lists == 3


@pytest.mark.parametrize("fault", ["silence", "reset", "malformed", "huge", "cut", 500, 503, 429])
@pytest.mark.parametrize("on", ["list", "watch"])
def test_a_fault_costs_nothing_but_time(server, store, watch, on, fault):
    server.huge_bytes = 2 << 20
    server.put(PODS, pod("a"))
    server.fail(PODS, on, fault, times=3)
    one = watch(dataclasses.replace(SHORT, silence_seconds=0.4))
    until(lambda: names(store) == {"a"})
    until(lambda: not server.faults[PODS, on])
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})
    until(lambda: one.pods.error == "")


def test_a_fault_is_told_in_a_sentence_while_it_lasts(server, store, watch):
    server.fail(PODS, "list", 500, times=100_000)
    one = watch()
    until(lambda: "HTTP 500" in one.pods.error)
    assert not store.view().ready
    server.faults.clear()
    until(lambda: store.view().ready and not one.pods.error)


def test_a_list_that_drips_is_given_up_and_tried_again(server, store, watch):
    server.put(PODS, pod("a"))
    server.fail(PODS, "list", "slow")
    one = watch(dataclasses.replace(SHORT, list_seconds=0.2))
    until(lambda: "did not finish" in one.pods.error)
    until(lambda: names(store) == {"a"})


def test_a_watch_that_drips_still_arrives(server, store, watch):
    server.put(PODS, pod("a"))
    server.slow_seconds = 0.001
    server.fail(PODS, "watch", "slow")
    one = watch()
    until(lambda: server.count(PODS, "watch") == 1)
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})
    assert one.pods.error == ""


def test_the_server_is_down_at_start_and_later(server, store, watch):
    server.put(PODS, pod("a"))
    server.stop()
    one = watch()
    until(lambda: "does not answer" in one.pods.error)
    assert not store.view().ready
    server.start()
    until(lambda: names(store) == {"a"})
    server.stop()
    until(lambda: "does not answer" in one.pods.error)
    assert names(store) == {"a"}  # what is known stays
    server.delete(PODS, pod("a"))
    server.put(PODS, pod("b"))
    server.start()
    until(lambda: names(store) == {"b"})


def test_a_rotated_token_is_read_again(server, store, watch, tmp_path):
    server.put(PODS, pod("a"))
    watch(dataclasses.replace(SHORT, watch_seconds=1.0))
    until(lambda: names(store) == {"a"})
    (tmp_path / "token").write_text("second-token\n")
    server.tokens = {"second-token"}
    before = server.count(PODS, "watch")
    until(lambda: server.count(PODS, "watch") >= before + 2)
    server.put(PODS, pod("b"))
    until(lambda: names(store) == {"a", "b"})


def test_refused_rights_are_said_with_the_next_step(server, store, watch):
    server.forbidden = {PODS}
    one = watch()
    until(lambda: "`list` and `watch` on pods" in one.pods.error)
    server.forbidden = set()
    until(lambda: store.view().ready)


def test_many_pods_come_in_pages_that_fit(server, store, watch):
    notes = {"note": "x" * 3000}
    for number in range(211):
        server.put(PODS, pod(f"p{number}", annotations=notes))
    one = watch()
    # The cache's whole list exceeds 256 KiB, and so does a page of 64: pages of 8 fit.
    until(lambda: len(names(store)) == 211)
    assert one.pods.lists == 1
    limits = [int(p["limit"]) for path, p in server.requests if path == PODS and "limit" in p]
    assert limits[:3] == [64, 8, 8]


def test_one_pod_that_cannot_be_read_does_not_hide_the_others(server, store, watch):
    odd = pod("odd")
    odd["metadata"]["labels"] = {"a": 23}
    nameless = pod("nameless")
    nameless["metadata"]["name"] = ""
    for item in (pod("a"), odd, nameless, pod("b")):
        server.put(PODS, item)
    one = watch()
    until(lambda: names(store) == {"a", "b"})
    assert one.pods.malformed == 2


def test_five_thousand_events_leave_the_exact_state(server, store, watch):
    server.put(PODS, pod("base"))
    one = watch()
    until(lambda: names(store) == {"base"} and server.count(PODS, "watch") == 1)
    # 1,250 pods: each is bound, gets a container, restarts it, and all but a prime few end.
    events = 0
    for number in range(1250):
        name = f"p{number}"
        first, second = container_id(f"{name}/1"), container_id(f"{name}/2")
        server.put(PODS, pod(name, containers=[]))
        server.put(PODS, pod(name, containers=[status("main", first)]))
        server.put(PODS, pod(name, containers=[status("main", second, previous=first)]))
        if number % 23:
            server.delete(PODS, pod(name))
        else:
            server.put(PODS, pod(name, containers=[status("main", second, previous=first)],
                                 phase="Succeeded"))  # fmt: skip
        events += 4
    assert events == 5000
    kept = {f"p{number}" for number in range(0, 1250, 23)}
    # The last pods come and go: the names alone are right before all events were taken.
    until(lambda: one.pods.events >= events and names(store) == kept | {"base"}, seconds=40)
    assert one.pods.events == events
    assert one.pods.lists == 1
    view = store.view()
    assert all(view.by_container[container_id(f"{n}/1")][0].name == n for n in kept)
    assert all(view.by_container[container_id(f"{n}/2")][0].terminal for n in kept)
    late = view.by_container[container_id("p1/2")]
    assert late[0].uid in view.ended


def test_namespaces_opt_out_where_rights_allow(server, store, watch):
    server.put(NAMESPACES, namespace("ml", {"gpugauge.io/trace": "off"}))
    server.put(NAMESPACES, namespace("other"))
    watch()
    until(lambda: store.view().opted_out_namespaces == {"ml"})
    server.put(NAMESPACES, namespace("other", {"gpugauge.io/trace": "Off"}))
    until(lambda: store.view().opted_out_namespaces == {"ml", "other"})
    server.put(NAMESPACES, namespace("ml"))
    server.delete(NAMESPACES, namespace("other"))
    until(lambda: not store.view().opted_out_namespaces)


def test_namespaces_refused_leave_the_pods_alone(server, store, watch):
    server.forbidden = {NAMESPACES}
    server.put(PODS, pod("a"))
    one = watch()
    until(lambda: names(store) == {"a"})
    until(lambda: "on namespaces" in one.namespaces.error)
    assert one.pods.error == ""


def test_asked_to_refresh_it_lists_at_once_in_the_middle_of_a_watch(server, store, watch):
    server.put(PODS, pod("a"))
    one = watch()
    until(lambda: server.count(PODS, "watch") == 1)
    one.pods.refresh()
    until(lambda: one.pods.lists == 2)
    until(lambda: server.count(PODS, "watch") == 2)
    assert one.pods.error == ""


def test_stopping_does_not_wait_for_a_silent_server(server, store, watch):
    server.fail(PODS, "watch", "silence")
    one = watch(dataclasses.replace(SHORT, silence_seconds=1000.0, read_seconds=1000.0))
    until(lambda: server.count(PODS, "watch") == 1)
    one.stop()
    assert not one.pods._thread.is_alive()


def test_a_pod_made_again_under_its_name_is_another_pod(server, store, watch):
    first = pod("web-0", uid=pod_uid("one"), containers=[status("main", container_id("one"))])
    again = pod("web-0", uid=pod_uid("two"), containers=[status("main", container_id("two"))])
    server.put(PODS, first)
    watch()
    until(lambda: names(store) == {"web-0"})
    server.delete(PODS, first)
    server.put(PODS, again)
    until(lambda: container_id("two") in store.view().by_container)
    view = store.view()
    assert view.by_container[container_id("one")][0].uid == pod_uid("one")
    assert view.by_container[container_id("two")][0].uid == pod_uid("two")
    assert view.by_name["ml", "web-0"].uid == pod_uid("two")
