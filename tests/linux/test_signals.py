"""The signals against the simulated device, whose clock is the truth."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gpugauge.model.abi import Cause
from gpugauge.model.process import Process
from gpugauge.state.raw import Chunks
from sim.machine import workload_command
from sim.oracle import Truth
from tests.linux.tracing import Session, Traced, traced

TICK_SECONDS = 0.1
# Other programs of this machine must not hold a workload up inside a call: for the probes that
# is waiting, and the device's clock knows nothing of it.
UNDISTURBED = ("chrt", "--fifo", "10") if shutil.which("chrt") else ()


@dataclass(frozen=True)
class Run:
    """A workload that ended: what it said, what was measured, and what happened."""

    line: dict[str, Any]
    process: Process
    truth: Truth
    idle_ns: int | None
    true_idle_ns: int
    """From the making of the context on, as known idle is."""

    @property
    def wall_ns(self) -> int:
        return int(self.line["wall_ns"])

    def blocked_ns(self, cause: Cause) -> int:
        return sum(device.blocked_ns[cause] for device in self.process.devices)


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced(tmp_path_factory.mktemp("signals")) as made:
        yield made


def run(it: Traced, name: str, **numbers: int) -> Run:
    """Run a workload, tick meanwhile as the agent does, and see that every split adds up."""
    with it.machine.start([*UNDISTURBED, *workload_command(name, **numbers)]) as child:
        while child.poll() is None:
            tick(it)
            time.sleep(TICK_SECONDS)
        assert child.stdout is not None
        line = json.loads(child.stdout.read().splitlines()[-1])
        assert child.returncode == 0
    tick(it)
    process = it.process(line["pid"])
    truth = it.oracle.truth(line["pid"])
    known = [d.known_idle_ns for d in process.devices if d.known_idle_ns is not None]
    made = [each.created_ns for each in it.state.processes.identities.contexts(process.number)]
    before_ns = truth.first_submit_ns - min(made) if made else 0
    end_ns = process.started_ns + process.observed_ns
    return Run(
        line, process, truth, sum(known) if known else None, truth.idle_until(end_ns) + before_ns
    )


def tick(it: Traced) -> None:
    """Do what the agent does at a tick."""
    snapshot = it.tick()
    for time_ in snapshot.times:
        parts = (time_.host_waits_ns, time_.gpu_waits_ns, time_.overlapped_ns, time_.unobserved_ns)
        assert min(parts) >= 0
        assert time_.observed_ns == sum(parts)
    for process in it.state.processes.by_number.values():
        known = [p.issue.issue_ns for p in process.places.values() if p.issue.issue_ns]
        if known and process.alive:
            it.reader.set_issue_ns(process.slot_index, round(min(known)))


IDLE: dict[str, tuple[str, dict[str, int], float]] = {
    "starved": ("training", {"stall_us": 3000, "steps": 61}, 0.9),
    "starved, slow launches": ("training", {"stall_us": 5000, "steps": 31, "launch_us": 700}, 0.9),
    "sparse": ("inference", {"requests": 61}, 0.9),
    "dense": ("training", {"steps": 101}, 0.0),
    "host bound": ("training", {"steps": 101, "launches": 31, "launch_us": 1}, 0.0),
    "two streams": ("streams", {"steps": 61}, 0.0),
    "two threads": ("threads", {"threads": 2, "launches": 1009, "launch_us": 20}, 0.0),
    "capture and replay": ("graphs", {"replays": 101}, 0.9),
    "event waits": ("events", {"rounds": 31}, 0.0),
    "callbacks": ("callbacks", {"rounds": 23}, 0.9),
    "synchronous copies": ("batch", {"items": 13}, 0.0),
    "saturated": ("saturate", {"launches": 3001, "launch_us": 100}, 0.0),
}
"""Workload, its numbers, and the least share of the true idle time that must be known.

Known idle ends every wait later than the device ended its work, by what it takes to wake a thread,
and begins only where one wait covered all work: it is tight where the host lets the device run
dry and waits for one stream, and a lower bound elsewhere.
"""


@pytest.mark.parametrize("kind", IDLE)
def test_known_idle_is_never_above_the_truth(it: Traced, kind: str) -> None:
    name, numbers, least = IDLE[kind]
    found = run(it, name, **numbers)
    assert found.idle_ns is not None
    assert found.idle_ns <= found.true_idle_ns
    assert found.idle_ns >= least * found.true_idle_ns
    waited = found.process.blocked_wall_ns
    assert found.idle_ns + waited <= found.process.observed_ns


LAUNCHES = {5: 20_011, 10: 15_013, 20: 10_007, 40: 7_001, 80: 5_003, 200: 3_001, 1000: 1_801}
"""By duration in us: how many, so that the queue is full most of the time."""


@pytest.mark.parametrize("launch_us", LAUNCHES)
def test_the_launch_queue(it: Traced, launch_us: int) -> None:
    """A loop that never synchronizes: within 5 points of the wall time.

    What else goes on in this machine makes launches slow that had no reason to be; the best of
    three runs is the one that was disturbed least.
    """
    off = []
    for _ in range(3):
        found = run(it, "saturate", launches=LAUNCHES[launch_us], launch_us=launch_us)
        queue = found.blocked_ns(Cause.LAUNCH_QUEUE) / found.wall_ns
        truth = found.truth.blocked_launch_queue_ns / found.wall_ns
        off.append(abs(queue - truth))
        assert queue <= 1
        if launch_us >= 40:
            assert truth > 0.5
        if off[-1] <= 0.05:
            break
    assert min(off) <= 0.05, off


def test_the_launch_queue_of_two_threads(it: Traced) -> None:
    found = run(it, "saturate", launches=5_003, launch_us=40, threads=2)
    queue = found.blocked_ns(Cause.LAUNCH_QUEUE) / found.wall_ns / 2
    truth = found.truth.blocked_launch_queue_ns / found.wall_ns / 2
    assert queue == pytest.approx(truth, abs=0.05)
    assert truth > 0.5


def test_waits_and_copies(it: Traced) -> None:
    """What the probes time lies around what the library times, by little."""
    found = run(it, "training", steps=101, launch_us=100)
    waited, truth = found.blocked_ns(Cause.SYNCHRONIZE), found.truth.blocked_synchronize_ns
    assert waited >= truth > 0
    assert waited == pytest.approx(truth, abs=0.05 * found.wall_ns)
    found = run(it, "inference", requests=61)
    copied, truth = found.blocked_ns(Cause.COPY), found.truth.blocked_copy_ns
    assert copied == pytest.approx(truth, abs=0.05 * found.wall_ns)
    assert found.blocked_ns(Cause.LAUNCH_QUEUE) < 0.05 * found.wall_ns


def test_launch_nodes_of_graphs_are_exact(it: Traced) -> None:
    found = run(it, "graphs", replays=101, nodes=13)
    (device,) = [each for each in found.process.devices if each.operations]
    assert device.graph_launch_nodes == found.truth.graph_nodes == 101 * 13
    assert device.graph_launches_unknown == 0


def test_time_that_reading_takes_is_not_idle(it: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission between the read of a slot and the end of the tick ends idle time there."""
    with Session(it) as session:
        session.run("driver.launch(function); driver.synchronize()")
        read = it.reader._chunks

        def slow(name: str) -> Chunks:
            if name == "process_counts":
                time.sleep(0.05)
                session.run("driver.launch(driver.function('busy_1ms')); driver.synchronize()")
                time.sleep(0.05)
            return read(name)

        began_ns = time.monotonic_ns()
        monkeypatch.setattr(it.reader, "_chunks", slow)
        process = it.process(session.pid)
        monkeypatch.undo()
        made = min(c.created_ns for c in it.state.processes.identities.contexts(process.number))
        (idle_ns,) = [d.known_idle_ns for d in process.devices if d.known_idle_ns is not None]
        assert 0 < idle_ns < began_ns + 50_000_000 - made
        assert process.started_ns + process.observed_ns < began_ns + 50_000_000
