"""Memory, to the byte: an agent on the simulated driver, whose chunks and contexts are known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpugauge.explain import PATH
from gpugauge.explain.account import CHUNK_BYTES, account, rounding_bytes
from gpugauge.model.abi import Family
from gpugauge.model.device import DeviceProcess
from gpugauge.model.process import Memory
from gpugauge.units import MIB
from tests.explain.cases import process_outlives_its_pod
from tests.explain.stage import WANTED, Stage
from tests.linux.agents import AgentProcess, agent
from tests.linux.tracing import OwnMachine, Session, Traced
from tests.support.snapshots import GPU_A, device, owner, process

CONTEXT_BYTES = 554_000_003
RESERVED_BYTES = 617_000_003
Plain = dict[str, Any]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> OwnMachine:
    folder = tmp_path_factory.mktemp("explain")
    return OwnMachine(
        folder, device_count=2, context_bytes=CONTEXT_BYTES, reserved_bytes=RESERVED_BYTES
    )


@pytest.fixture(scope="module")
def it(machine: OwnMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    with agent(tmp_path_factory.mktemp("agent"), machine) as running:
        yield running


@pytest.fixture
def session(machine: OwnMachine) -> Iterator[Session]:
    with Session(cast(Traced, SimpleNamespace(machine=machine))) as one:
        yield one


def until(it: AgentProcess, question: Callable[[Plain], Any]) -> Any:
    """Ask for the node's report until a question about it has an answer."""
    deadline = time.monotonic() + 30
    while True:
        report = json.loads(it.get(PATH))["report"]
        answer = question(report)
        if answer:
            return answer
        assert time.monotonic() < deadline, report
        time.sleep(0.1)


def row(report: Plain, pid: int) -> Plain:
    found = [one for one in report["memory"] if one["pid"] == pid]
    return found[0] if found else {}


def settled(it: AgentProcess, pid: int, **wanted: int | None) -> Plain:
    """Return the account of a process once it is what it must be."""
    last: list[Plain] = []

    def reached(report: Plain) -> Plain | None:
        last[:] = [row(report, pid)]
        return last[0] if wanted.items() <= last[0].items() else None

    try:
        found: Plain = until(it, reached)
    except AssertionError:
        raise AssertionError(f"{last} is not {wanted}") from None
    return found


def test_the_gap_is_split_to_the_byte(it: AgentProcess, session: Session) -> None:
    fresh = settled(it, session.pid, held_bytes=CONTEXT_BYTES, context_bytes=CONTEXT_BYTES)
    assert (fresh["requested_bytes"], fresh["rounding_bytes"], fresh["rest_bytes"]) == (0, 0, 0)
    session.run("live = [driver.allocate(3 << 20)]")
    one = settled(it, session.pid, held_bytes=CONTEXT_BYTES + 4 * MIB)
    assert one["requested_bytes"] == 3 * MIB
    assert (one["rounding_bytes"], one["rest_bytes"]) == (MIB, 0)
    session.run("live += [driver.allocate(5 << 20), driver.allocate(7)]")
    three = settled(it, session.pid, held_bytes=CONTEXT_BYTES + (4 + 6 + 2) * MIB)
    assert three["requested_bytes"] == 8 * MIB + 7
    assert three["rounding_bytes"] is None
    assert three["rest_bytes"] == 4 * MIB - 7
    assert any("rounding to chunks of 2 MiB is in the rest" in one for one in three["notes"])
    families = {one["family"]: one for one in three["families"]}
    assert families["device"] == {
        "family": "device",
        "requested_bytes": 8 * MIB + 7,
        "peak_bytes": 8 * MIB + 7,
    }
    session.run("for pointer in live: call('cuMemFree_v2', pointer)")
    freed = settled(it, session.pid, held_bytes=CONTEXT_BYTES)
    assert (freed["requested_bytes"], freed["peak_bytes"]) == (0, 8 * MIB + 7)
    assert (freed["rounding_bytes"], freed["rest_bytes"]) == (0, 0)


def test_what_the_driver_reserves_is_told_of_the_device(it: AgentProcess, session: Session) -> None:
    settled(it, session.pid, held_bytes=CONTEXT_BYTES)
    device = until(it, lambda report: report["devices"])[0]
    assert device["reserved_bytes"] == RESERVED_BYTES
    assert device["held_bytes"] == CONTEXT_BYTES


def test_contexts_have_an_age_and_a_process(it: AgentProcess, session: Session) -> None:
    def found(report: Plain) -> Plain | None:
        mine = [one for one in report["contexts"] if one["pid"] == session.pid]
        return mine[0] if mine else None

    first = until(it, found)
    assert (first["contexts"], first["pod"]) == (1, "")
    assert 0 < first["oldest_ns"] == first["newest_ns"]
    session.run("extra = c_void_p(); call('cuCtxCreate_v2', byref(extra), 0, 0)")

    def two(report: Plain) -> Plain | None:
        one = found(report)
        return one if one and one["contexts"] == 2 else None

    both = until(it, two)
    assert both["oldest_ns"] > both["newest_ns"] > 0
    assert both["gpu_uuid"] == first["gpu_uuid"]


def test_the_page_is_for_this_host_alone_and_for_pods_by_name(it: AgentProcess) -> None:
    assert it.status(PATH) == 200
    assert it.status(f"{PATH}?namespace=ml&pod=train-0") == 200
    assert it.status(f"{PATH}?namespace=ml") == 400
    assert it.status(f"{PATH}?namespace=ML&pod=..") == 400


@pytest.mark.parametrize(
    ("memory", "wanted"),
    [
        ({}, 0),
        ({Family.DEVICE: Memory(1, 1, allocations=1)}, CHUNK_BYTES - 1),
        ({Family.DEVICE: Memory(CHUNK_BYTES, 0, allocations=5, frees=4)}, 0),
        ({Family.DEVICE: Memory(7, 7, allocations=2)}, None),
        ({Family.DEVICE: Memory(0, 7, allocations=3, frees=3)}, 0),
        ({Family.VIRTUAL: Memory(6 * MIB, 6 * MIB, allocations=3)}, 0),
        ({Family.HOST: Memory(7, 7, allocations=3)}, 0),
        ({Family.MANAGED: Memory(3 * MIB, 0, 1), Family.ARRAY: Memory(MIB, 0, 1)}, 2 * MIB),
    ],
)
def test_rounding_is_exact_or_unknown(memory: dict[Family, Memory], wanted: int | None) -> None:
    assert rounding_bytes(memory) == wanted


def test_what_is_not_known_is_unknown_and_never_nothing() -> None:
    one = process(owner())
    unknown = account(one, one.devices[0])
    assert unknown.gpu_uuid == GPU_A
    assert {unknown.requested_bytes, unknown.held_bytes, unknown.context_bytes} == {None}
    assert {unknown.rounding_bytes, unknown.rest_bytes, unknown.peak_bytes} == {None}
    assert any("NVML gives no figure" in note for note in unknown.notes)
    assert any("ran before the agent" in note for note in unknown.notes)


def test_a_pod_with_two_processes_is_summed_and_unknown_stays_unknown(stage: Stage) -> None:
    stage.processes.append(stage.traced(4712))
    memory = stage.explain().memory
    assert [one.pid for one in memory] == [4711, 4712, 0]
    first, second, both = memory
    assert both.pod == WANTED
    assert both.held_bytes == 2 * (3 << 30)
    assert both.requested_bytes == 2 * (2 << 30)
    assert both.rest_bytes == (first.rest_bytes or 0) + (second.rest_bytes or 0)
    assert both.rounding_bytes is None
    stage.processes[1] = stage.traced(4712, memory_held_bytes=None)
    both = stage.explain().memory[-1]
    assert (both.held_bytes, both.rest_bytes) == (None, None)
    assert both.requested_bytes == 2 * (2 << 30)


def test_what_is_left_over_is_named(stage: Stage) -> None:
    process_outlives_its_pod(stage)
    stage.devices[0] = device(GPU_A, processes=(DeviceProcess(23, 5),))
    left = {one.pid: one for one in stage.explain("").memory if one.dead}
    assert set(left) == {23, 31337}
    assert left[23].notes == ("left over: no such process lives",)
    assert left[31337].notes[0] == "left over: its pod is gone"
    assert left[31337].pod == "ml/deleted-0"
    assert (left[23].held_bytes, left[31337].held_bytes) == (5, 3 << 30)
