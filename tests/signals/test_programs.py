"""Random programs of calls over threads, streams and contexts, against the reference."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings

from gpugauge.model.abi import STREAM_IDLE, STREAM_MIXED, Loss, Slot
from gpugauge.model.process import ProcessDevice
from tests.linux.tracing import Traced, traced
from tests.signals.programs import BEGINNINGS, Program, programs
from tests.signals.reference import Reference
from tests.signals.reference_rows import MIXED, UNKNOWN, Device

EXAMPLES_FACTOR = 4
ONE_DEVICE = BEGINNINGS[1]
HARMLESS = {
    Loss.RING_LIMITED,
    Loss.RING_FULL,
    Loss.POINTER_UNKNOWN,
    Loss.POINTER_REPLACED,
    Loss.DEPTH,
}
"""Nobody takes events out of the ring here; freeing what is not there, and deep stacks, happen; an
address comes back when a context went whose memory was requested from too deep a stack."""


class Interpreter:
    """The process that runs programs, each in a child of its own."""

    def __init__(self, it: Traced) -> None:
        command = [sys.executable, "-m", "tests.signals.interpreter"]
        self._child = it.machine.start(command, stdin=subprocess.PIPE)

    def begin(self, program: Program) -> tuple[int, list[dict[str, Any]]]:
        """Run a program; return its pid and its calls. It lives until `end`."""
        pid, log = json.loads(self._tell(json.dumps(program)))
        return pid, log

    def end(self) -> None:
        """Let the program that ran end."""
        assert self._tell("") == "{}\n"

    def _tell(self, line: str) -> str:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()
        said = self._child.stdout.readline()
        assert said, self._child.stderr and self._child.stderr.read()
        return said

    def close(self) -> None:
        """End it."""
        self._child.communicate(timeout=10)


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced(tmp_path_factory.mktemp("programs"), device_count=2, data_bytes=0) as made:
        yield made


@pytest.fixture(scope="module")
def interpreter(it: Traced) -> Iterator[Interpreter]:
    made = Interpreter(it)
    yield made
    made.close()


@settings(max_examples=settings().max_examples * EXAMPLES_FACTOR)
@given(program=programs)
# Each was once wrong: a free that is only recorded; a thread's own stream in two contexts; a failed
# registration; a green context that holds the primary one; a handle that comes back.
@example(
    program=(*ONE_DEVICE, (2, "allocate", 79, 1048573), (0, "begin", 71, 257), (2, "free", 72, 3))
)
@example(
    program=(
        (0, "retain", 0, 1),
        (0, "launch", 77, 33),
        (0, "create", 42, 2),
        (0, "stream_sync", 91, 5),
    )
)
@example(program=((1, "allocate", 39, 0),))
@example(program=((0, "retain", 0, 1), (1, "green", 22, 257), (0, "release", 54, 3)))
@example(
    program=(
        (1, "green", 46, 1),
        (2, "create", 62, 7),
        (0, "destroy", 5, 17),
        (2, "view", 33, 0),
        (2, "launch", 0, 1),
    )
)
def test_a_random_program(it: Traced, interpreter: Interpreter, program: Program) -> None:
    pid, log = interpreter.begin(program)
    try:
        reference = Reference()
        for call in log:
            reference.take(call)
        found, lost = seen(it, pid, log), it.losses()
        assert lost.keys() <= HARMLESS
        assert found == expected(reference)
    finally:
        interpreter.end()
        it.tick()
        it.reap_ended()


def seen(it: Traced, pid: int, log: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what gpugauge says of a process, by place."""
    snapshot = it.tick()
    (process,) = [p for p in snapshot.processes if p.pid == pid and p.alive]
    (tracked,) = [p for n, p in it.state.processes.by_number.items() if n == process.number]
    uuids = {f"GPU-{uuid_text(c['uuid'])}": c["device"] for c in log if "uuid" in c}
    devices = {uuids.get(device.gpu_uuid, UNKNOWN): device for device in process.devices}
    found: dict[str, Any] = {}
    for place, device in devices.items():
        found |= {f"{name} at {place}": value for name, value in of_device(device).items()}
    for place in set(uuids.values()):
        state = tracked.slot.places[place]
        stream = {STREAM_IDLE: None, STREAM_MIXED: MIXED}.get(state.stream, "one")
        found[f"outstanding at {place}"] = stream
        found[f"contexts at {place}"] = state.contexts
    # Of calls before the first context: on no device, and not in the view.
    wide = it.state.processes.counts.of(process.number).get(UNKNOWN)
    if UNKNOWN not in devices and wide:
        reading = it.state.processes.reading
        lanes = it.state.processes.counts.lanes.values(wide)
        found[f"calls at {UNKNOWN}"] = {
            slot: each.calls for slot, each in reading.operations(lanes).items()
        }
    return {name: value for name, value in found.items() if value}


def uuid_text(raw: str) -> str:
    """Return a UUID as NVML writes it."""
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


def of_device(device: ProcessDevice) -> dict[str, Any]:
    """Return what is compared of a device."""
    assert device.memory is not None
    families = {family.name: memory for family, memory in device.memory.items()}
    return {
        "calls": {slot: each.calls for slot, each in device.operations.items()},
        "bytes": {slot: each.bytes for slot, each in device.operations.items() if each.bytes},
        "errors": dict(device.errors),
        "launch threads": device.launch_threads,
        "graph nodes": device.graph_launch_nodes,
        "graphs unknown": device.graph_launches_unknown,
        "requested": {n: m.requested_bytes for n, m in families.items() if m.requested_bytes},
        "peak": {n: m.peak_bytes for n, m in families.items() if m.peak_bytes},
        "allocations": {n: m.allocations for n, m in families.items() if m.allocations},
        "frees": {n: m.frees for n, m in families.items() if m.frees},
        "failures": {n: m.failures for n, m in families.items() if m.failures},
    }


def expected(reference: Reference) -> dict[str, Any]:
    """Return what the reference says, in the same shape."""
    found: dict[str, Any] = {}
    for place, at in reference.devices.items():
        rows = [each for each in reference.all_contexts if each.device == place]
        if place == UNKNOWN:
            rows.append(reference.nowhere)
        requested, peak = Counter[Any](), Counter[Any]()
        for row in rows:
            requested.update(row.requested)
            peak.update(row.peak)
        found |= {f"{name} at {place}": value for name, value in plain(at).items()}
        found[f"requested at {place}"] = {f.name: n for f, n in requested.items() if n}
        found[f"peak at {place}"] = {f.name: n for f, n in peak.items() if n}
        if place != UNKNOWN:
            stream = at.stream
            found[f"outstanding at {place}"] = "one" if isinstance(stream, tuple) else stream
            found[f"contexts at {place}"] = sum(each.live for each in rows)
    return {name: value for name, value in found.items() if value}


def plain(at: Device) -> dict[str, Any]:
    """Return the counters of a device."""
    return {
        "calls": dict(at.calls),
        "bytes": {slot: n for slot, n in at.bytes.items() if n},
        "errors": dict(at.errors),
        "launch threads": at.launch_threads,
        "graph nodes": at.graph_nodes,
        "graphs unknown": at.graph_unknown,
        "allocations": {f.name: n for f, n in at.allocations.items()},
        "frees": {f.name: n for f, n in at.frees.items()},
        "failures": {f.name: n for f, n in at.failures.items()},
    }


def test_programs_reach_what_they_are_about(it: Traced, interpreter: Interpreter) -> None:
    """The comparison is not of nothing: a program with work on a device shows it."""
    program = (
        (0, "retain", 0, 1),
        (0, "set", 0, 1),
        (0, "launch", 0, 0),
        (0, "allocate", 0, 4099),
    )
    pid, log = interpreter.begin(program)
    try:
        found = seen(it, pid, log)
        assert found["calls at 0"][Slot.LAUNCH] == 1
        assert found["requested at 0"] == {"DEVICE": 4099}
        assert found["outstanding at 0"] == "one"
    finally:
        interpreter.end()
