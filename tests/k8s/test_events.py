"""Findings as Events on their pods: their form, how often, and whatever the server does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.agent.pod_event import NOTE_BYTES, cut, event, event_name, micro_time, note, series
from gpugauge.agent.pod_events import QUEUE_LIMIT, PodEventWriter
from gpugauge.agent.token_bucket import TokenBucket
from gpugauge.attribution.cluster import Cluster
from gpugauge.attribution.cluster_writer import ClusterWriter
from gpugauge.attribution.pod_view import Container, Pod
from gpugauge.diagnosis.rules import RULES
from gpugauge.diagnosis.text import owner_text
from gpugauge.model.finding import Confidence, Evidence, Finding, Party, Severity
from gpugauge.model.workload import Owner, Scope
from gpugauge.settings import PodEventSettings
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import NODE, pod_uid
from tests.k8s.fakes.waiting import until
from tests.k8s.fakes.writable import EVENTS_V1, WritableApiServer, event_fault
from tests.k8s.whole import Cluster as Whole
from tests.k8s.whole import wait_for
from tests.linux.agents import metrics

NOW_NS = 1_800_000_000_123_456_789
RIGHT = "Give the service account `{}` on events.events.k8s.io"


def pod(name="train-0", namespace="ml", **more) -> Pod:
    values: dict[str, Any] = {
        "uid": pod_uid(f"{namespace}/{name}"),
        "namespace": namespace,
        "name": name,
        "workload": "train",
        "workload_kind": "Job",
        "containers": (Container("main", "0" * 64),),
    }
    return Pod(**(values | more))


def owner(name="train-0", namespace="ml", **more) -> Owner:
    values: dict[str, Any] = {
        "namespace": namespace,
        "pod": name,
        "container": "main",
        "pod_uid": pod_uid(f"{namespace}/{name}"),
    }
    return Owner(Scope.POD, **(values | more))


def finding(name="train-0", **more) -> Finding:
    values: dict[str, Any] = {
        "rule": "noisy_neighbour",
        "severity": Severity.WARNING,
        "confidence": Confidence.SURE,
        "owner": owner(name),
        "gpu_uuid": "GPU-1",
        "node": NODE,
        "sentence": f"ml/{name} shares its GPU.",
        "remedy": "Move one of the two.",
        "wrong_when": "",
        "since_unix_ns": NOW_NS,
        "found_unix_ns": NOW_NS,
        "seen_unix_ns": NOW_NS,
        "explained_ratio": 0.5,
        "evidence": (Evidence(name="launches", unit="1/s", now=500.0, before=1270.0),),
    }
    return Finding(**(values | more))


# ---- the form ------------------------------------------------------------------


def test_an_event_regards_the_pod_with_its_uid():
    made = event(finding(), pod(), NODE)
    assert event_fault(made, "ml") == ""
    assert made["reason"] == "NoisyNeighbour"
    assert made["type"] == "Warning"
    assert made["note"] == "ml/train-0 shares its GPU. Move one of the two."
    assert made["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ml",
        "name": "train-0",
        "uid": pod_uid("ml/train-0"),
        "fieldPath": "spec.containers{main}",
    }
    assert made["eventTime"] == "2027-01-15T08:00:00.123456Z"
    assert event(finding(severity=Severity.INFO), pod(), NODE)["type"] == "Normal"
    assert event(finding(severity=Severity.CRITICAL), pod(), NODE)["type"] == "Warning"


def test_a_static_pod_is_regarded_as_the_kubelet_does():
    made = event(finding(), pod(config_hash="8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"), NODE)
    assert made["regarding"]["uid"] == "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_reason_in_camel_case(rule):
    reason = event(finding(rule=rule.id), pod(), NODE)["reason"]
    assert reason.isalpha()
    assert reason[0].isupper()
    assert reason.lower() == rule.id.replace("_", "")


def test_the_name_is_the_same_in_another_run_and_differs_where_the_finding_does():
    first = event_name(finding(), pod())
    assert first == event_name(finding(sentence="Other words.", seen_unix_ns=NOW_NS + 9), pod())
    others = [
        event_name(finding(rule="hang"), pod()),
        event_name(finding(gpu_uuid="GPU-2"), pod()),
        event_name(finding(owner=owner(container="side")), pod()),
        event_name(finding(), pod(uid="another")),
        event_name(finding(found_unix_ns=NOW_NS + 3600 * 10**9), pod()),
    ]
    assert len({first, *others}) == 6


PRINTED = st.text(max_size=3000)


@given(PRINTED, PRINTED, st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True))
def test_whatever_is_said_and_named_makes_an_event_that_is_accepted(sentence, remedy, name):
    name = ".".join(part.strip("-") or "x" for part in name.split("."))
    made = event(finding(sentence=sentence, remedy=remedy), pod(name), "n" * 300)
    made = json.loads(json.dumps(made))
    assert event_fault(made, "ml") == ""
    assert made["note"].isprintable()


@given(st.text(max_size=2000), st.integers(min_value=3, max_value=NOTE_BYTES))
def test_a_text_is_cut_between_characters(text, limit):
    found = cut(text, limit)
    assert len(found.encode()) <= limit
    assert found.isprintable()


@given(st.integers(min_value=-1, max_value=2**70), st.integers(min_value=0, max_value=2**40))
def test_any_time_and_count_make_a_series(unix_ns, count):
    made = event(finding(found_unix_ns=unix_ns), pod(), NODE) | series(count, unix_ns)
    assert event_fault(made, "ml") == ""
    assert len(micro_time(unix_ns)) == 27


# ---- what is not told ----------------------------------------------------------


def test_a_neighbour_of_another_namespace_is_not_named():
    neighbour = owner("serve", "web")
    said = f"ml/train-0 shares its GPU with {owner_text(neighbour)}, and waits."
    party = Party(neighbour, 7, 4242, "python3", "neighbour")
    assert note(finding(sentence=said, parties=(party,))).startswith(
        "ml/train-0 shares its GPU with a pod of another namespace, and waits."
    )
    mate = owner("serve", "ml")
    said = f"ml/train-0 shares its GPU with {owner_text(mate)}."
    party = Party(mate, 7, 4242, "python3", "neighbour")
    assert "with ml/serve." in note(finding(sentence=said, parties=(party,)))


def test_a_name_that_is_the_end_of_the_own_one_leaves_it():
    neighbour = owner("train-0", "l")
    said = "ml/train-0 shares its GPU with l/train-0."
    party = Party(neighbour, 7, 4242, "python3", "neighbour")
    told = note(finding(sentence=said, parties=(party,)))
    assert told.startswith("ml/train-0 shares its GPU with a pod of another namespace.")


COMMANDS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)


@given(COMMANDS, st.integers(min_value=1000, max_value=2**22), st.sampled_from(list(Scope)),
       st.booleans())  # fmt: skip
def test_no_process_is_named(command, pid, scope, listed):
    stranger = Owner(scope, container_id="f" * 64)
    shown = owner_text(stranger, command, pid)
    hung = f"{''.join(c if c.isprintable() else '?' for c in command)} ({pid})"
    said = f"ml/train-0 waits for {shown}; {hung} does not wait."
    parties = (Party(stranger, 7, pid, command, "neighbour"),) if listed else ()
    made = finding(sentence=said, parties=parties, pids=(pid,))
    assert f"({pid})" not in note(made)
    if "ml/train-0: Noisy neighbour: launches: 500/s" not in note(made):
        assert hung not in note(made)


def test_codes_in_parentheses_are_not_taken_for_processes():
    said = "ml/train-0 gets CUDA_ERROR_LAUNCH_FAILED (719) from launch calls."
    assert note(finding(rule="cuda_errors", sentence=said, pids=(4242,))).startswith(said)


def test_a_simulated_driver_is_said():
    assert note(finding(simulated=True)).startswith("(simulated) ml/train-0")


# ---- how often -----------------------------------------------------------------


class Time:
    """Virtual seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class It:
    """A writer of Events on a fake API server."""

    def __init__(self, server: WritableApiServer, folder: Path, **settings: Any) -> None:
        self.server, self.time = server, Time()
        self.pods = {pod_uid("ml/train-0"): pod()}
        way = Cluster(node_name=NODE, asked=True, kubeconfig=str(server.kubeconfig(folder)))
        values = {"enabled": True, "per_minute": 600} | settings
        self.writer = PodEventWriter(
            PodEventSettings(**values),
            ClusterWriter(way, seconds=2.0),
            self.pods.get,
            NODE,
            clock=self.time,
            backoff_seconds=0.01,
        )

    def add(self, *names: str) -> None:
        self.pods |= {pod_uid(f"ml/{name}"): pod(name) for name in names}

    def see(self, *findings: Finding, after: float = 0.0) -> None:
        """Let a tick see findings that were all seen to hold just now."""
        self.time.now += after
        seen_ns = NOW_NS + int(self.time.now * 10**9)
        self.writer.observe([replace(each, seen_unix_ns=seen_ns) for each in findings])

    def writes(self, **expected: int) -> None:
        """Wait for the outcomes so far, those not given are 0."""
        wanted = dict.fromkeys(self.writer.state.writes, 0) | expected
        until(lambda: self.writer.state.writes == wanted)
        assert self.server.refused == []

    def idle(self) -> None:
        """Wait until nothing is queued or under way."""
        until(lambda: not any(kept.queued for kept in self.writer._kept.values()))


@pytest.fixture
def server() -> Iterator[WritableApiServer]:
    with WritableApiServer() as running:
        yield running


@pytest.fixture
def it(server, tmp_path) -> Iterator[Callable[..., It]]:
    made: list[It] = []

    def start(**settings: Any) -> It:
        made.append(It(server, tmp_path, **settings))
        return made[-1]

    yield start
    for each in made:
        each.writer.close()
        assert not each.writer._thread.is_alive()


def test_one_event_a_finding_renewed_seldom_while_it_lasts(server, it):
    one = it()
    for _ in range(50):
        one.see(finding(), after=1.0)
    one.writes(created=1)
    one.idle()
    one.see(finding(), after=600.0)
    one.writes(created=1, updated=1)
    one.idle()
    one.see(finding(), after=599.0)
    one.see(finding(), after=1.0)
    one.writes(created=1, updated=2)
    (made,) = server.events()
    assert made["series"]["count"] == 3
    assert made["series"]["lastObservedTime"] > made["eventTime"]
    assert made["metadata"]["namespace"] == "ml"
    one.see(after=6000.0)  # it is over
    one.idle()
    one.writes(created=1, updated=2)
    assert [method for method, _, _ in server.writes] == ["POST", "PATCH", "PATCH"]


def test_what_is_shown_still_but_not_seen_again_is_not_renewed(it):
    one = it()
    same = finding()
    one.writer.observe([same])
    one.writes(created=1)
    one.idle()
    one.time.now += 700.0
    one.writer.observe([same])
    one.idle()
    one.writes(created=1)


def test_each_pod_rule_container_and_device_has_its_own(server, it):
    one = it()
    one.add("train-1")
    findings = [
        finding(),
        finding("train-1"),
        finding(rule="hang", severity=Severity.CRITICAL),
        finding(gpu_uuid="GPU-2"),
        finding(owner=owner(container="side")),
    ]
    one.see(*findings)
    one.see(*findings, after=1.0)
    one.writes(created=5)
    assert len(server.events()) == 5


def test_only_pods_that_are_known_that_are_traced_and_only_what_is_grave_enough(server, it):
    one = it()
    one.add("quiet")
    one.see(
        finding("stranger"),
        finding(owner=None),
        finding(owner=Owner(Scope.HOST)),
        finding(owner=Owner(Scope.CONTAINER, container_id="f" * 64)),
        finding("quiet", owner=owner("quiet", traced=False)),
        finding(severity=Severity.INFO),
    )
    one.idle()
    one.writes()
    assert server.writes == []
    lenient = it(severity=Severity.INFO)
    lenient.see(finding(severity=Severity.INFO))
    lenient.writes(created=1)
    assert server.events()[0]["type"] == "Normal"


def test_another_run_finds_its_event_again(server, it):
    first = it()
    for after in (0.0, 600.0):
        first.see(finding(), after=after)
        first.idle()
    first.writes(created=1, updated=1)
    again = it()
    again.see(finding())
    again.writes(updated=1)
    (made,) = server.events()
    assert made["series"]["count"] == 3


def test_an_event_that_expired_is_made_anew(server, it):
    one = it()
    one.see(finding())
    one.writes(created=1)
    one.idle()
    server.delete(EVENTS_V1, server.events()[0])
    one.see(finding(), after=700.0)
    one.writes(created=2)
    assert len(server.events()) == 1


def test_the_same_again_hours_later_is_another_event(server, it):
    one = it()
    one.see(finding())
    one.writes(created=1)
    one.idle()
    one.see(finding(found_unix_ns=NOW_NS + 5 * 3600 * 10**9), after=18_000.0)
    one.writes(created=2)
    assert len(server.events()) == 2


# ---- whatever the server does --------------------------------------------------


def test_a_server_that_takes_for_ever_delays_nothing_and_the_queue_is_bounded(server, it):
    server.write_seconds = 0.3
    one = it()
    names = [f"p{number}" for number in range(QUEUE_LIMIT + 23)]
    one.add(*names)
    caller = threading.Thread(target=lambda: one.see(*(finding(name) for name in names)))
    caller.start()
    until(lambda: not caller.is_alive())  # though hundreds of writes would take half a minute
    state = one.writer.state.writes
    assert state["dropped"] >= 22  # the first may be under way already
    assert state["created"] <= 1
    server.write_seconds = 0.0
    one.idle()
    assert sum(one.writer.state.writes.values()) == len(names)
    one.see(*(finding(name) for name in names), after=1.0)
    one.idle()
    assert sum(one.writer.state.writes.values()) == len(names)  # not tried again at once


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("fault", [500, 503, 429, "reset", "cut", "silence"])
def test_a_fault_is_tried_again_until_it_is_written(server, it, method, fault):
    one = it()
    if method == "PATCH":
        one.see(finding())
        one.writes(created=1)
        one.idle()
    server.fail(EVENTS_V1, method, fault, times=2)
    one.see(finding(), after=700.0)
    one.writes(created=1, updated=int(method == "PATCH"))
    assert one.writer.state.error == ""
    assert len(server.events()) == 1


def test_a_server_that_is_down_is_waited_for_and_given_up_in_time(server, it):
    one = it()
    server.stop()
    one.see(finding())
    until(lambda: "does not answer" in one.writer.state.error)
    server.start()
    one.writes(created=1)
    one.idle()
    server.stop()
    one.see(finding(), after=700.0)
    until(lambda: one.writer.state.error != "")
    one.time.now += 601.0
    one.writes(created=1, failed=1)


def test_a_missing_right_is_said_once_with_the_next_step(server, it, caplog):
    server.forbidden = {f"POST {EVENTS_V1}"}
    one = it()
    one.add("train-1")
    one.see(finding(), finding("train-1"))
    until(lambda: RIGHT.format("create") in one.writer.state.error)
    until(lambda: one.writer.state.writes["failed"] == 1)
    assert len(server.writes) == 1  # rights are given by people: no hurry
    assert len([line for line in caplog.messages if "was not written" in line]) == 1


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_is_refused_for_good_is_not_tried_again(server, it, status):
    server.fail(EVENTS_V1, "POST", status)
    one = it()
    one.see(finding())
    one.writes(failed=1)
    one.idle()
    assert len(server.writes) == 1
    one.see(finding(), after=601.0)
    one.writes(failed=1, created=1)


def test_a_pod_that_ended_while_its_event_waited_gets_none(server, it):
    server.stop()
    one = it()
    one.see(finding())
    until(lambda: one.writer.state.error != "")
    one.pods.clear()
    server.start()
    one.writes(failed=1)
    assert server.events() == []


def test_names_that_lead_elsewhere_are_not_written(server, it):
    one = it()
    hostile = "../../nodes"
    uid = pod_uid(f"{hostile}/train-0")
    one.pods[uid] = pod(namespace=hostile)
    one.see(finding(owner=owner(namespace=hostile)))
    until(lambda: "is no name of an object" in one.writer.state.error)
    assert server.writes == []


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b'"x"', b"{", b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_object_is_no_success(tmp_path, answer, monkeypatch):
    way = Cluster(node_name=NODE, asked=True)
    writer = ClusterWriter(way)

    class Answers:
        def write(self, *_args: object, **_more: object) -> bytearray:
            return bytearray(answer)

        def close(self) -> None:
            return

    monkeypatch.setattr(Cluster, "connect", lambda *_a, **_m: Answers())
    with pytest.raises(Exception, match="no object"):
        writer.patch_event("ml", "x", {})


def test_writes_keep_to_a_rate():
    time = Time()
    bucket = TokenBucket(6, time)
    for _ in range(6):
        assert bucket.wait_seconds() == 0.0
        bucket.take()
    assert bucket.wait_seconds() == pytest.approx(10.0)
    time.now += 9.0
    assert bucket.wait_seconds() == pytest.approx(1.0)
    time.now += 3600.0
    for _ in range(6):
        assert bucket.wait_seconds() == 0.0
        bucket.take()
    assert bucket.wait_seconds() > 0.0


def test_an_end_does_not_wait_for_a_silent_server(server, it):
    server.fail(EVENTS_V1, "POST", "silence", times=9)
    one = it()
    one.see(finding())
    until(lambda: bool(server.writes))
    one.writer.close()
    assert not one.writer._thread.is_alive()


# ---- the whole agent -----------------------------------------------------------


@pytest.fixture
def cluster(tmp_path, server) -> Iterator[Whole]:
    with FakeKubelet(tmp_path / "kubelet") as kubelet:
        made = Whole(tmp_path, server, kubelet)
        yield made
        made.close()


IDLE_SOON = ("--diagnosis-idle-holder-seconds=2", "--diagnosis-startup-seconds=0",
             "--diagnosis-evaluate-seconds=0.2")  # fmt: skip


def test_a_pod_that_holds_a_gpu_idle_gets_an_event(server, cluster):
    a = cluster.a
    cluster.give(a)
    agent = cluster.start_agent("--pod-events-enabled=true", *IDLE_SOON)
    a.start()
    a.show()
    a.work()
    (made,) = until(server.events, seconds=40)
    assert made["reason"] == "IdleHolder"
    assert made["type"] == "Warning"
    assert made["regarding"]["uid"] == pod_uid("ml/a")
    assert made["regarding"]["fieldPath"] == "spec.containers{main}"
    assert made["reportingInstance"] == NODE
    assert made["note"].startswith("(simulated) ml/a holds")
    assert server.refused == []
    found = metrics(cluster.text(), "gpugauge_agent_pod_event_writes_total")
    assert {dict(key)["outcome"]: count for key, count in found.items() if count} == {"created": 1}
    assert "Traceback" not in agent.text


def test_without_the_setting_nothing_is_written(server, cluster):
    a = cluster.a
    cluster.give(a)
    cluster.start_agent(*IDLE_SOON)
    a.start()
    a.show()
    a.work()
    wait_for(cluster, lambda text: 'rule="idle_holder"' in text)
    assert server.writes == []
