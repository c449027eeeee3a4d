"""Tenants against each other: what one floods, the other does not notice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.agent.events import Events
from gpugauge.model import abi
from gpugauge.model.abi import EventType, Family, Loss, QuotaKind, Slot
from gpugauge.model.device import Device, DeviceProcess, Inventory
from gpugauge.model.workload import UNKNOWN
from gpugauge.state.requested import OTHER_CODE
from tests.linux.cgroups import Cgroup, cgroups
from tests.linux.tracing import Traced, traced

ALLOCATIONS = abi.LIMIT_ALLOCATIONS // abi.LIMIT_QUOTA_SHARE
STREAMS = abi.LIMIT_STREAMS // abi.LIMIT_QUOTA_SHARE
PROCESSES = abi.LIMIT_PROCESSES // abi.LIMIT_QUOTA_SHARE
FLOOD = """
import os, sys
from ctypes import byref, c_void_p
from sim.workloads.driver import Driver
driver = Driver()
library, handle = driver.library, c_void_p()
def many(name, times, *arguments):
    for _ in range(times):
        assert getattr(library, name)(byref(handle), *arguments) == 0, name
many("cuMemAlloc_v2", int(sys.argv[1]), 1)
many("cuStreamCreate", int(sys.argv[2]), 0)
many("cuGraphCreate", int(sys.argv[3]), 0)
for _ in range(int(sys.argv[4])):
    many("cuCtxCreate_v2", 1, 0, 0)
    many("cuCtxPopCurrent_v2", 1)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""
NEIGHBOUR = """
import os, sys
from ctypes import byref, c_ubyte, c_void_p
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
driver.call("cuDeviceGetUuid_v2", (c_ubyte * 16)(), 0)
streams = [c_void_p() for _ in range(11)]
for each in streams:
    driver.call("cuStreamCreate", byref(each), 0)
print(os.getpid(), flush=True)
for line in sys.stdin:
    for each in streams:
        for _ in range(int(line)):
            driver.launch(function, each)
        driver.call("cuStreamSynchronize", each)
    driver.allocate(4099)
    print("done", flush=True)
"""


STARTED: list[Tenant] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No tenant outlives its test, however that ends."""
    yield
    for each in STARTED:
        each.child.kill()
        with each.child:
            pass
    STARTED.clear()


class Tenant:
    """A process that goes on when it is told to."""

    def __init__(self, it: Traced, cgroup: Cgroup | None, text: str, *arguments: int) -> None:
        command = [sys.executable, "-c", text, *map(str, arguments)]
        self.child = it.machine.start(
            cgroup.command(command) if cgroup else command, stdin=subprocess.PIPE
        )
        STARTED.append(self)
        self.pid = int(self.line())

    def line(self) -> str:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line, self.child.communicate()
        return line

    def tell(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def end(self) -> None:
        _, error = self.child.communicate()
        assert self.child.returncode == 0, error


@pytest.mark.parametrize("version", [1, 2])
def test_a_flood_leaves_a_neighbour_exact(tmp_path: Path, version: int) -> None:
    """On version 1 every process has the id of the root: there each is counted by itself."""
    asked = (ALLOCATIONS + 101, STREAMS + 13, 256 + 7, 64 + 3)
    with cgroups(tmp_path, "a", "b") as (a, b), traced(tmp_path, instant=1) as it:
        first = Tenant(it, b if version == 2 else None, NEIGHBOUR)
        first.tell("17")
        first.line()
        flood = Tenant(it, a if version == 2 else None, FLOOD, *asked)
        second = Tenant(it, b if version == 2 else None, NEIGHBOUR)
        for each in (first, second):
            each.tell("23")
            each.line()
        neighbours = [first.pid, second.pid]
        assert exact(it, *neighbours)
        assert [it.device(pid).memory[Family.DEVICE].requested_bytes for pid in neighbours] == [
            2 * 4099,
            4099,
        ]
        # The calls of the flood are counted too: only what it would hold is refused.
        assert it.counted([flood.pid]).calls == it.truth([flood.pid]).calls
        refused = it.reader.quotas.refused()
        quota = a.id if version == 2 else abi_key(it, flood.pid)
        assert {k: v for k, v in refused.pop(quota).items() if k != "ring"} == {
            "allocations": 101,
            "streams": 13,
            "graphs": 7,
            "contexts": 3 + 1,  # the primary one was there
        }
        assert all(set(row) <= {"ring"} for row in refused.values())
        assert it.losses() == {Loss.QUOTA: 101 + 13 + 7 + 4}
        memory = it.process(flood.pid).devices[0]
        assert not memory.memory_complete
        flood.tell("")
        for each in (flood, first, second):
            each.end()
        it.tick()
        assert it.reap_ended() == 3
        assert it.reader.quotas.refused() == {}


def exact(it: Traced, *pids: int) -> bool:
    """Whether all calls of these processes are counted, and no other."""
    counted, truth = it.counted(pids), it.truth(pids)
    return (counted.calls, counted.errors) == (truth.calls, truth.errors) and any(truth.calls)


def abi_key(it: Traced, pid: int) -> int:
    return 1 << 63 | it.process(pid).number


def test_what_a_process_held_is_given_back_when_it_is_reaped(tmp_path: Path) -> None:
    """Three processes, one after the other, each of which takes its cgroup's whole share."""
    with cgroups(tmp_path, "a") as (a,), traced(tmp_path, instant=1) as it:
        keeper = Tenant(it, a, NEIGHBOUR)  # so that the quota's row stays
        for _ in range(3):
            flood = Tenant(it, a, FLOOD, ALLOCATIONS, STREAMS - 11, 256, 61)
            flood.tell("")
            flood.end()
            it.tick()
            assert it.reap_ended() == 1
        assert it.losses() == {}
        keeper.tell("3")
        keeper.line()
        assert exact(it, keeper.pid)
        keeper.end()


def test_a_flood_of_processes_leaves_room_for_others(tmp_path: Path) -> None:
    forks = PROCESSES + 11
    text = f"""
import ctypes, os, sys
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
ready, hold = os.pipe(), os.pipe()
children = []
for _ in range({forks}):
    child = os.fork()
    if not child:
        os.close(hold[1])
        library.cuCtxSynchronize()
        os.write(ready[1], b".")
        os.read(hold[0], 1)
        os._exit(0)
    children.append(child)
for _ in range({forks}):
    os.read(ready[0], 1)
print(os.getpid(), flush=True)
sys.stdin.readline()
os.close(hold[1])
for child in children:
    os.waitpid(child, 0)
"""
    with cgroups(tmp_path, "a", "b") as (a, b), traced(tmp_path, instant=1) as it:
        flood = Tenant(it, a, text)
        neighbour = Tenant(it, b, NEIGHBOUR)
        neighbour.tell("19")
        neighbour.line()
        assert exact(it, neighbour.pid)
        assert it.reader.quotas.refused()[a.id]["processes"] == 11
        assert sum(p.cgroup_id == a.id for p in it.tick().processes) == PROCESSES
        flood.tell("")
        flood.end()
        neighbour.end()
        it.tick()
        assert it.reap_ended() == PROCESSES + 1


def test_a_flood_of_events_leaves_a_neighbours_events(tmp_path: Path) -> None:
    """At most 8 a second of one cgroup; what they would say is in the maps."""
    with cgroups(tmp_path, "a", "b") as (a, b), traced(tmp_path, instant=1) as it:
        events = Events(it.tracer.loaded)
        began = time.monotonic()
        flood = Tenant(it, a, FLOOD, 0, 0, 0, 60)
        neighbour = Tenant(it, b, NEIGHBOUR)
        seconds = time.monotonic() - began
        told = events.read()
        at_most = (int(seconds) + 2) * 8
        assert at_most < 61
        assert neighbour.pid in told.first_calls
        assert it.process(flood.pid).devices[0].contexts == 61
        assert it.reader.quotas.refused()[a.id]["ring"] >= 61 - at_most
        assert b.id not in it.reader.quotas.refused()
        flood.tell("")
        flood.end()
        neighbour.end()
        events.close()


def test_sizes_above_all_memory_are_refused(tmp_path: Path) -> None:
    """The library is the tenant's: it may say that anything succeeded."""
    text = """
from ctypes import byref, c_size_t, c_void_p
from sim.workloads.driver import Driver
driver = Driver()
pointer = c_void_p()
for size in (1 << 50, 4099):
    driver.attempt("cuMemsetD8_v2", c_void_p(4096), 0, c_size_t(size))
for size in (1 << 62, 5003):
    driver.attempt("cuMemcpyHtoD_v2", c_void_p(4096), c_void_p(4096), c_size_t(size))
"""
    with traced(tmp_path, instant=1) as it:
        it.reader.set_size_limits(device_bytes=80 << 30, host_bytes=1 << 40)
        for symbol in ("cuMemsetD8_v2", "cuMemcpyHtoD_v2"):
            it.machine.control.delay(symbol, 0)
        with it.machine.start([sys.executable, "-c", text]) as child:
            child.wait(20)
            bytes_of = it.counted([child.pid]).bytes
        assert bytes_of[Slot.SET] in (0, 4099)
        assert bytes_of[Slot.COPY_HTOD] in (0, 5003)
        assert it.losses()[Loss.SIZE_REFUSED] == 2


def test_codes_outside_curesult_are_one_code(tmp_path: Path) -> None:
    text = """
import sys
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
for _ in range(3):
    driver.library.cuCtxSynchronize()
"""
    with traced(tmp_path, instant=1) as it:
        it.machine.control.fail("cuCtxSynchronize", 123_456_789, 2)
        with it.machine.start([sys.executable, "-c", text]) as child:
            child.wait(20)
        assert it.counted([child.pid]).errors == {(Slot.SYNCHRONIZE, OTHER_CODE): 2}


def test_a_device_that_only_the_process_speaks_of_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpugauge.state.state.CLAIM_GRACE_NS", 0)
    with traced(tmp_path, instant=1) as it:
        honest = Tenant(it, None, NEIGHBOUR)
        liar = Tenant(it, None, NEIGHBOUR)
        for each in (honest, liar):
            each.tell("5")
            each.line()
        uuid = it.device(honest.pid).gpu_uuid
        assert uuid == it.device(liar.pid).gpu_uuid != UNKNOWN
        device = Device(
            uuid=uuid, index=0, model="", pci_bus_id="", memory_total_bytes=1 << 30,
            memory_used_bytes=None, memory_reserved_bytes=None, utilization_ratio=None,
            compute_mode="", processes=(DeviceProcess(honest.pid, 1 << 20),),
        )  # fmt: skip
        snapshot = it.tick(inventory=Inventory((device,), "", ""))
        by_pid = {process.pid: process.devices for process in snapshot.processes}
        assert [(each.gpu_uuid, each.claimed) for each in by_pid[honest.pid]] == [(uuid, False)]
        assert [(each.gpu_uuid, each.claimed) for each in by_pid[liar.pid]] == [(uuid, True)]
        (use,) = (each for each in snapshot.device_use if each.gpu_uuid == uuid)
        assert (use.processes_with_context, use.processes_claimed) == (1, 1)
        honest.end()
        liar.end()


def test_every_map_of_rows_has_a_kind() -> None:
    """A new map must come with a quota: one kind a map that tenants fill."""
    names = {kind.name.lower() for kind in QuotaKind}
    assert names == {
        "processes", "threads", "counts", "process_counts", "contexts", "devices", "streams",
        "events", "graphs", "captures", "allocations", "memories", "errors",
    }  # fmt: skip
    assert EventType.PROCESS_FIRST_CALL == 0


def test_all_maps_fit_in_32_mib(tmp_path: Path) -> None:
    with traced(tmp_path, attach=False) as it:
        assert it.tracer.memory_bytes <= 32 << 20
