"""The load score: what it is made of, when it is written, and that unknown is no score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.agent.load_points import LoadPoints
from gpugauge.agent.load_score import ANNOTATION, LoadScoreWriter
from gpugauge.attribution.cluster import Cluster
from gpugauge.attribution.cluster_writer import ClusterWriter
from gpugauge.model.cluster import OffSwitch
from gpugauge.model.device import Device, DeviceProcess
from gpugauge.model.snapshot import DeviceUse, OwnerTime, Snapshot
from gpugauge.model.workload import Owner
from gpugauge.settings import LoadScoreSettings
from sim.machine import workload_command
from tests.k8s.fakes.api_server import NODES
from tests.k8s.fakes.objects import NODE, node
from tests.k8s.fakes.waiting import until
from tests.k8s.fakes.writable import WritableApiServer
from tests.k8s.test_events import Time
from tests.k8s.test_switch import Run
from tests.support import snapshots
from tests.support.snapshots import GPU_A, GPU_B, SECOND, health, owner, process, snapshot

WINDOW = 60
RIGHT = "Give the service account `patch` on nodes"


def device(uuid: str, **more: Any) -> Device:
    return snapshots.device(uuid, **({"processes": ()} | more))


def use(gpu: str, pods: int, contexts: int = 0) -> DeviceUse:
    return DeviceUse(gpu_uuid=gpu, processes_with_context=contexts or pods, processes_active=0,
                     processes_claimed=0, pods=pods)  # fmt: skip


def waited(of: Owner, seconds: float) -> OwnerTime:
    ns = int(seconds * SECOND)
    return OwnerTime(owner=of, observed_ns=10 * ns, host_waits_ns=ns, gpu_waits_ns=0,
                     overlapped_ns=0, unobserved_ns=9 * ns)  # fmt: skip


A, B = owner("a"), owner("b")


def at(second: float, waits: dict[Owner, float] | None = None, **more: Any) -> Snapshot:
    """Return the snapshot of a moment: how long each owner has waited so far, in all."""
    waits = waits or {}
    values: dict[str, Any] = {
        "time_monotonic_ns": int((1000 + second) * SECOND),
        "times": tuple(waited(of, total) for of, total in waits.items()),
        "processes": tuple(process(of, number) for number, of in enumerate(waits, 1)),
        "devices": (device(GPU_A),),
        "device_use": (use(GPU_A, len(waits)),),
    }
    return snapshot(**(values | more))


def points(*snapshots: Snapshot) -> int | None:
    load = LoadPoints(WINDOW)
    for each in snapshots:
        load.observe(each)
    return load.points


# ---- what it is made of --------------------------------------------------------


def test_the_examples_of_its_definition():
    assert points(at(0), at(60)) == 0
    assert points(at(0, {A: 0}), at(60, {A: 0})) == 10
    assert points(at(0, {A: 0}), at(60, {A: 60})) == 110
    assert points(at(0, {A: 7, B: 5}), at(60, {A: 67, B: 65})) == 220
    assert points(at(0, {A: 7}), at(60, {A: 7 + 15})) == 35


def test_it_is_divided_by_the_gpus_and_a_mig_instance_is_one():
    two = {"devices": (device(GPU_A), device(GPU_B))}
    assert points(at(0, {A: 0}, **two), at(60, {A: 60}, **two)) == 55
    parts = (device(GPU_A), device("MIG-1", mig_parent_uuid=GPU_A),
             device("MIG-2", mig_parent_uuid=GPU_A))  # fmt: skip
    more = {"devices": parts, "device_use": (use("MIG-1", 1), use(GPU_A, 1))}
    assert points(at(0, {A: 0}, **more), at(60, {A: 60}, **more)) == 55


def test_a_device_that_only_processes_outside_pods_use_has_one_sharer():
    assert points(at(0), at(60, device_use=(use(GPU_A, 0, contexts=5),))) == 10


def test_an_owner_that_came_within_the_window_counts_and_one_that_left_costs_nothing():
    assert points(at(0, {A: 500}), at(60, {B: 30})) == 60
    # An owner under a new name brings its past with it: no more can wait than there are.
    assert points(at(0, {A: 9000}), at(60, {B: 9060})) == 110


def test_nothing_is_said_before_a_whole_window():
    assert points(at(0, {A: 0}), at(59, {A: 59})) is None


UNKNOWN = {
    "probes off": {"agent": health(off_switches=(OffSwitch(source="node", off=True),))},
    "NVML silent": {"agent": health(nvml_error="NVML is not answering.")},
    "not scanned": {"agent": health(ready=False)},
    "no GPU": {"devices": ()},
    "a process without probes": {
        "devices": (replace(device(GPU_A), processes=(DeviceProcess(99, None),)),)
    },
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_unknown_is_no_score_and_begins_anew(why):
    before = (at(0, {A: 0}), at(60, {A: 60}))
    assert points(*before) == 110
    off = [at(second, {A: second}, **UNKNOWN[why]) for second in range(61, 82)]
    assert points(*off) is None
    assert points(*before, *off) is None
    assert points(*before, *off, at(82, {A: 82}), at(141, {A: 141})) is None
    assert points(*before, *off, at(82, {A: 82}), at(142, {A: 82})) == 10


@pytest.mark.parametrize("why", UNKNOWN)
def test_what_is_unknown_for_a_moment_is_passed_over(why):
    before = (at(0, {A: 0}), at(60, {A: 60}))
    off = [at(second, {A: second}, **UNKNOWN[why]) for second in range(61, 69)]
    assert points(*before, *off) == 110
    assert points(*before, *off, at(69, {A: 69}), at(120, {A: 60})) == 10


def test_processes_that_end_are_in_the_list_of_nvml_for_a_while():
    ended = [
        at(second, {A: second}, devices=(device(GPU_A, processes=(DeviceProcess(pid, None),)),))
        for second in range(0, 130)
        for pid in (1000 + second // 5,)
    ]
    assert points(*ended) == 110


def test_what_is_no_compute_process_may_be_without_probes():
    listed = (DeviceProcess(99, None, "graphics"), DeviceProcess(98, None, "mps"),
              DeviceProcess(4201, None))  # fmt: skip
    more = {"devices": (replace(device(GPU_A), processes=listed),)}
    assert points(at(0, {A: 0}, **more), at(60, {A: 60}, **more)) == 110


@given(
    st.lists(
        st.tuples(
            st.integers(-100, 400),
            st.dictionaries(st.sampled_from([A, B]), st.integers(0, 10**6)),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_any_order_of_moments_and_totals_gives_no_score_or_one_within_bounds(moments):
    load = LoadPoints(WINDOW)
    for second, waits, known in moments:
        load.observe(at(second, dict(waits), **({} if known else UNKNOWN["no GPU"])))
        assert load.points is None or 0 <= load.points <= 2 * 100 + 2 * 10


# ---- when it is written --------------------------------------------------------


class It:
    """A writer of the score on a fake API server, in virtual time."""

    def __init__(self, server: WritableApiServer, folder: Path) -> None:
        self.server, self.time = server, Time()
        way = Cluster(node_name=NODE, asked=True, kubeconfig=str(server.kubeconfig(folder)))
        self.writer = LoadScoreWriter(
            LoadScoreSettings(enabled=True), ClusterWriter(way, seconds=2.0), clock=self.time
        )
        self.total = 0.0

    def pass_time(self, seconds: int, share: float, **more: Any) -> None:
        """Let a pod wait for its GPU in a share of so many seconds, a tick a second."""
        for _ in range(seconds):
            self.time.now += 1.0
            self.total += share
            self.writer.observe(at(self.time.now, {A: self.total}, **more))
            until(lambda: not self.writer._wake.is_set())

    @property
    def patches(self) -> list[str | None]:
        found = []
        for method, path, body in self.server.writes:
            assert (method, path) == ("PATCH", f"{NODES}/{NODE}")
            assert body.keys() == {"metadata"}
            assert body["metadata"].keys() == {"annotations"}
            assert body["metadata"]["annotations"].keys() == {ANNOTATION}
            found.append(body["metadata"]["annotations"][ANNOTATION])
        return found


@pytest.fixture
def server() -> Iterator[WritableApiServer]:
    with WritableApiServer() as running:
        running.put(NODES, node(annotations={"other": "stays", ANNOTATION: "700"}))
        running.put(NODES, node("node-b", {ANNOTATION: "23"}))
        yield running


@pytest.fixture
def it(server, tmp_path) -> Iterator[Callable[[], It]]:
    made: list[It] = []

    def start() -> It:
        made.append(It(server, tmp_path))
        return made[-1]

    yield start
    for each in made:
        each.writer.close()
        each.writer._thread.join()


def test_what_a_former_run_left_goes_at_once_and_the_score_comes_after_a_minute(server, it):
    one = it()
    one.pass_time(2, 1.0)
    assert one.patches == [None]
    assert server.annotations(NODE) == {"other": "stays"}
    one.pass_time(57, 1.0)
    assert one.patches == [None]
    one.pass_time(3, 1.0)
    assert one.patches == [None, "110"]
    assert server.annotations(NODE) == {"other": "stays", ANNOTATION: "110"}
    assert server.annotations("node-b") == {ANNOTATION: "23"}
    assert one.writer.state.points == 110


def test_it_is_written_at_most_once_a_minute_and_only_when_it_moved(server, it):
    one = it()
    one.pass_time(130, 1.0)
    assert one.patches == [None, "110"]
    one.pass_time(600, 0.95)
    assert one.patches == [None, "110"]
    one.pass_time(130, 0.5)
    assert len(one.patches) <= 4  # a window that holds both may come first
    assert abs(int(one.patches[-1] or 0) - 60) < 10
    before = len(one.patches)
    for share in (1.0, 0.0, 1.0, 0.0, 1.0, 0.0):
        one.pass_time(20, share)
    assert len(one.patches) - before <= 3


def test_unknown_takes_it_off_and_known_brings_it_back(server, it):
    one = it()
    one.pass_time(130, 1.0)
    one.pass_time(70, 1.0, agent=health(nvml_error="NVML is not answering."))
    assert one.patches == [None, "110", None]
    assert ANNOTATION not in server.annotations(NODE)
    one.pass_time(130, 0.0)
    assert one.patches[3:] == ["10"]


def test_an_orderly_end_takes_it_off(server, it):
    one = it()
    one.pass_time(130, 1.0)
    one.writer.close()
    assert one.patches[-1] is None
    assert server.annotations(NODE) == {"other": "stays"}


def test_a_missing_right_is_said_once_and_tried_once_a_minute(server, it, caplog):
    server.forbidden = {f"PATCH {NODES}"}
    one = it()
    one.pass_time(300, 1.0)
    assert RIGHT in one.writer.state.error
    assert one.writer.state.writes["failed"] == len(one.patches) == 5
    assert len([line for line in caplog.messages if "was not written" in line]) == 1
    server.forbidden = set()
    one.pass_time(60, 1.0)
    assert server.annotations(NODE)[ANNOTATION] == "110"
    assert one.writer.state.error == ""


@pytest.mark.parametrize("fault", [500, 409, 429, "reset", "cut", "malformed"])
def test_a_fault_costs_a_minute(server, it, fault):
    one = it()
    one.pass_time(2, 1.0)
    server.fail(NODES, "PATCH", fault)
    one.pass_time(130, 1.0)
    assert server.annotations(NODE)[ANNOTATION] == "110"
    assert one.writer.state.writes == {"written": 1, "removed": 1, "failed": 1}


def test_a_silent_server_delays_no_tick_and_the_end_only_so_long(server, it):
    server.fail(NODES, "PATCH", "silence", times=9)
    one = it()
    for _ in range(100):
        one.time.now += 1.0
        one.writer.observe(at(one.time.now))  # none of them waits
    until(lambda: len(server.writes) == 1)
    one.writer.close()
    until(lambda: not one.writer._thread.is_alive())


# ---- the whole agent -----------------------------------------------------------


@pytest.fixture
def run(tmp_path, server) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def start(*flags: str) -> Run:
        made.append(Run(tmp_path, server, *flags))
        made[-1].agent.wait_ready()
        return made[-1]

    yield start
    for each in made:
        if each.agent.child.poll() is None:
            each.agent.end()
        each.machine.close()


def test_an_agent_that_ends_leaves_no_score_behind(server, run):
    it = run("--load-score-enabled=true")
    until(lambda: ANNOTATION not in server.annotations(NODE))
    server.put(NODES, node(annotations={"other": "stays", ANNOTATION: "50"}))
    it.agent.end()
    assert server.annotations(NODE) == {"other": "stays"}
    assert "Traceback" not in it.agent.text


def test_nothing_is_written_unless_it_is_switched_on(server, run):
    it = run()
    it.agent.next_snapshot()
    assert "gpugauge_agent_load_score" not in it.agent.get("/metrics")
    it.agent.end()
    assert server.writes == []
    assert server.annotations(NODE)[ANNOTATION] == "700"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_agent_writes_the_score_of_a_busy_gpu(server, run):
    it = run("--load-score-enabled=true")
    with it.machine.start(workload_command("saturate", launches=500_000)):
        until(lambda: int(server.annotations(NODE).get(ANNOTATION, 0)) > 50, seconds=110)
