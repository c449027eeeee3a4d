"""The device model: its clock is the truth that signals are compared with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sim.machine import Machine, machine, workload_command

MS = 1_000_000
MIB = 1 << 20

# Memory and copies, told by the workload's own driver helper.
PRELUDE = """
import ctypes, json, os
from sim.workloads.driver import Driver
def show(**values): print(json.dumps(values), flush=True)
"""


def accounts(row) -> int:
    """Time with nothing outstanding plus time running must be all time: nothing else exists."""
    return row.empty_since_ns - row.first_submit_ns - row.busy_ns - row.idle_ns


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("training", {"stall_us": 500}),
        ("training", {"launch_us": 1, "launches": 31}),
        ("inference", {}),
        ("saturate", {"launches": 1201, "launch_us": 20}),
        ("saturate", {"launches": 601, "launch_us": 20, "threads": 2}),
        ("streams", {}),
        ("graphs", {}),
        ("batch", {}),
        ("events", {"rounds": 5}),
    ],
)
def test_idle_and_busy_sum_to_all_time(tmp_path: Path, name: str, numbers: dict) -> None:
    with machine(tmp_path) as device:
        (line,) = device.workload(name, **numbers)
        row = device.oracle.truth(line["pid"])
        (real,) = device.oracle.devices()
    assert row.outstanding == 0
    assert accounts(row) == 0
    assert row.busy_ns == real.busy_ns > 0
    assert row.idle_ns < row.empty_since_ns - row.first_submit_ns
    if "wall_ns" in line:
        assert row.blocked_launch_queue_ns <= line["wall_ns"] * numbers.get("threads", 1)


def test_launches_take_what_their_names_say(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
value = ctypes.c_uint64(3_000_000)
cells = (ctypes.c_void_p * 1)(ctypes.addressof(value))
for name in ("busy_1ms", "busy_700us_of_matrix", "busy_900ns"):
    driver.launch(driver.function(name))
function = driver.function("busy_argument")
driver.call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, cells, None)
driver.drain()
"""
    )
    with machine(tmp_path) as device:
        device.script(text)
        (row,) = device.oracle.truths()
    assert row.busy_ns == 1_000_000 + 700_000 + 900 + 3_000_000


def test_launches_block_when_the_queue_is_full(tmp_path: Path) -> None:
    with machine(tmp_path, queue_depth=5) as device:
        device.workload("saturate", launches=8, launch_us=40_000)
        (row,) = device.oracle.truths()
    assert row.busy_ns == 8 * 40 * MS
    assert 1 <= row.blocked_launches <= 3  # three, unless the host slept through a launch
    assert row.blocked_launch_queue_ns > 0


def test_two_processes_share_in_turn(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        command = workload_command("saturate", launches=20, launch_us=5000)
        with device.start(command) as one, device.start(command) as other:
            assert one.wait(30) == 0
            assert other.wait(30) == 0
        rows = device.oracle.truths()
        (real,) = device.oracle.devices()
    assert sorted(row.pid for row in rows) == sorted((one.pid, other.pid))
    assert [row.busy_ns for row in rows] == [100 * MS, 100 * MS]
    assert real.busy_ns == 200 * MS
    first, second = sorted(rows, key=lambda row: row.first_submit_ns)
    if second.first_submit_ns < first.empty_since_ns:  # they did overlap: each waited
        assert first.empty_since_ns - first.first_submit_ns > 100 * MS


def test_pageable_copies_block_and_pinned_ones_do_not(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
size = 4 << 20
device, pinned = driver.allocate(size), driver.pinned(size)
pageable = ctypes.create_string_buffer(size)
stream = driver.stream()
if os.environ["KIND"] == "registered":
    driver.call("cuMemHostRegister_v2", pageable, ctypes.c_size_t(size), 0)
host = pinned if os.environ["KIND"] == "pinned" else pageable
driver.to_host(host, device, size, stream)
show(pending=driver.attempt("cuStreamQuery", stream))
driver.synchronize(stream)
"""
    )
    expected = {"pinned": 600, "registered": 600, "pageable": 0}
    for kind, pending in expected.items():
        folder = tmp_path / kind
        folder.mkdir()
        # Slow bandwidths, so that a copy of 4 MiB is still running when the query comes.
        with machine(folder, pinned_mb_per_s=20, pageable_dtoh_mb_per_s=50) as device:
            assert device.script(text, extra={"KIND": kind}) == [{"pending": pending}]
            (row,) = device.oracle.truths()
        assert (row.blocked_copy_ns > 0) == (kind == "pageable")
        assert (row.bytes_dtoh, row.copies_dtoh) == (4 * MIB, 1)


def test_memory_is_held_in_chunks_and_requested_to_the_byte(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
kept = [driver.allocate(8192), driver.allocate(8192), driver.allocate(3 << 20)]
managed = ctypes.c_uint64()
driver.call("cuMemAllocManaged", ctypes.byref(managed), ctypes.c_size_t(4097), 1)
pool = ctypes.c_uint64()
driver.call("cuMemAllocAsync", ctypes.byref(pool), ctypes.c_size_t(6151), None)
array = ctypes.c_void_p()
shape = (ctypes.c_uint64 * 3)(101, 7, 0x20 | 2 << 32)  # float, two channels
driver.call("cuArrayCreate_v2", ctypes.byref(array), shape)
handle, place = ctypes.c_void_p(), (ctypes.c_int * 8)(1, 0, 1, 0)
chunk, zero = ctypes.c_size_t(2 << 20), ctypes.c_uint64(0)
driver.call("cuMemCreate", ctypes.byref(handle), chunk, place, zero)
address = ctypes.c_uint64()
driver.call("cuMemAddressReserve", ctypes.byref(address), chunk, zero, zero, zero)
driver.call("cuMemMap", address, chunk, zero, handle, zero)
driver.call("cuMemRelease", handle)
input_ = input()
driver.call("cuMemUnmap", address, chunk)
driver.call("cuMemFreeAsync", pool, None)
driver.call("cuArrayDestroy", array)
for each in (*kept, managed):
    driver.call("cuMemFree_v2", each)
show(done=1)
input()
"""
    )
    command = [sys.executable, "-c", text]
    with (
        machine(tmp_path) as device,
        device.start(command, stdin=subprocess.PIPE) as child,
    ):
        try:
            wait_for(device, child, "cuMemRelease")
            row = device.oracle.truth(child.pid)
            assert row.requested == {
                "device": 8192 * 2 + 3 * MIB,
                "managed": 4097,
                "pool": 6151,
                "virtual": 2 * MIB,
                "host": 0,
                "host_registered": 0,
                "array": 101 * 7 * 4 * 2,
            }
            # Small ones share one chunk of 2 MiB, 3 MiB take 4, the virtual one 2.
            assert row.held_bytes == 554_000_000 + (2 + 4 + 2) * MIB
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline()
            row = device.oracle.truth(child.pid)
            assert set(row.requested.values()) == {0}
            assert row.peak["device"] == 8192 * 2 + 3 * MIB
            assert row.held_bytes == 554_000_000
        finally:
            child.kill()


def wait_for(device: Machine, child, symbol: str) -> None:
    while True:
        assert child.poll() is None, child.stderr.read()
        found = [each for each in device.oracle.processes() if symbol in each.calls]
        if found and found[0].calls[symbol].ended:
            return


def test_out_of_memory_and_room_again(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
pointer = ctypes.c_uint64()
def take(size):
    return driver.attempt("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
codes = [take(200 << 20), take(200 << 20)]
driver.call("cuMemFree_v2", pointer)
codes.append(take(200 << 20))
free, total = ctypes.c_size_t(), ctypes.c_size_t()
driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
show(codes=codes, free=free.value, total=total.value)
"""
    )
    config = {"device_bytes": 1000 * MIB, "reserved_bytes": 100 * MIB, "context_bytes": 600 * MIB}
    with machine(tmp_path, **config) as device:
        (line,) = device.script(text)
    assert line == {"codes": [0, 2, 0], "free": 100 * MIB, "total": 1000 * MIB}


def test_a_killed_process_gives_everything_back(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        command = workload_command("saturate", launches=100_000, launch_us=1000)
        with device.start(command) as child:
            while not queued(device, child.pid):
                assert child.poll() is None
            os.kill(child.pid, signal.SIGKILL)
        (line,) = device.workload("training", steps=2)
        (real,) = device.oracle.devices()
        gone, ended = device.oracle.truth(child.pid), device.oracle.truth(line["pid"])
    assert (gone.held_bytes, gone.contexts, gone.outstanding) == (0, 0, 0)
    assert real.used_bytes == ended.held_bytes  # its own end is seen by the next one
    assert gone.launches > 1000


def queued(device: Machine, pid: int) -> bool:
    try:
        return device.oracle.truth(pid).blocked_launches > 0
    except KeyError:
        return False


def test_graph_nodes_and_captured_calls(tmp_path: Path) -> None:
    with machine(tmp_path, graph_node_gap_ns=0) as device:
        (line,) = device.workload("graphs", replays=37, nodes=11, launch_us=7)
        row = device.oracle.truth(line["pid"])
    assert row.graph_nodes == 37 * 11 == line["graph_nodes"]
    assert (row.graph_launches, row.captured, row.launches) == (37, 11, 1)
    assert row.busy_ns == (37 * 11 + 1) * 7000


def test_a_synchronization_breaks_a_capture(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
stream, graph = driver.stream(), ctypes.c_void_p()
driver.call("cuStreamBeginCapture_v2", stream, 0)
codes = [driver.attempt("cuStreamSynchronize", stream),
         driver.attempt("cuStreamEndCapture", stream, ctypes.byref(graph))]
show(codes=codes, graph=graph.value)
"""
    )
    with machine(tmp_path) as device:
        assert device.script(text) == [{"codes": [900, 901], "graph": None}]


def test_an_event_wait_orders_two_streams(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        (line,) = device.workload("events", rounds=5, launch_us=1500)
    assert line["least_ms"] >= 1.5


def test_host_functions_run_in_order(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        (line,) = device.workload("callbacks", rounds=5)
        row = device.oracle.truth(line["pid"])
    assert line["in_order"]
    assert row.busy_ns == 2 * 5 * 300_000  # host functions are outstanding, not running


def test_a_waited_value_holds_its_stream_only(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
held, free, flag = driver.stream(), driver.stream(), driver.pinned(4)
function = driver.function("busy_5us")
driver.call("cuStreamWaitValue32_v2", held, ctypes.c_uint64(flag.value), 7, 1)
driver.launch(function, held)
driver.launch(function, free)
driver.synchronize(free)
codes = [driver.attempt("cuStreamQuery", held)]
driver.call("cuStreamWriteValue32_v2", free, ctypes.c_uint64(flag.value), 7, 0)
driver.synchronize(held)
codes.append(driver.attempt("cuStreamQuery", held))
show(codes=codes)
"""
    )
    with machine(tmp_path) as device:
        assert device.script(text) == [{"codes": [600, 0]}]


UUIDS = (
    PRELUDE
    + """
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
code = library.cuInit(0)
count, out = ctypes.c_int(), (ctypes.c_ubyte * 16)()
library.cuDeviceGetCount(ctypes.byref(count))
found = []
for at in range(count.value):
    pair = []
    for name in ("cuDeviceGetUuid", "cuDeviceGetUuid_v2"):
        assert getattr(library, name)(out, at) == 0
        pair.append(bytes(out).hex()[-13:])
    found.append(pair)
show(code=code, found=found)
"""
)


def test_devices_by_uuid(tmp_path: Path) -> None:
    with machine(tmp_path, device_count=3) as device:
        uuids = [each.uuid for each in device.oracle.devices()]
        assert len(set(uuids)) == 3
        (line,) = device.script(UUIDS)
        assert line["found"] == [[f"{n:013d}"] * 2 for n in (1, 2, 3)]
        chosen = {"CUDA_VISIBLE_DEVICES": f"{uuids[2]},0"}
        (line,) = device.script(UUIDS, extra=chosen)
        assert line["found"] == [["0000000000003"] * 2, ["0000000000001"] * 2]
        (line,) = device.script(UUIDS, extra={"CUDA_VISIBLE_DEVICES": ""})
        assert line == {"code": 100, "found": []}


def test_mig_instances(tmp_path: Path) -> None:
    with machine(tmp_path, device_count=2, mig_instances=3) as device:
        instances = device.oracle.devices()
        assert len({each.uuid for each in instances}) == 6
        assert len({each.parent_uuid for each in instances}) == 2
        (line,) = device.script(UUIDS, extra={"CUDA_VISIBLE_DEVICES": instances[4].uuid})
        # The first form of the call tells the physical device, the second the instance.
        assert line["found"] == [["0000000000002", "0000200000002"]]


def test_primary_contexts_are_counted_references(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
again, flags, active = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_int()
driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(again), 0)
states = [again.value == driver.context.value]
for _ in range(2):
    driver.call("cuDevicePrimaryCtxRelease_v2", 0)
    driver.call("cuDevicePrimaryCtxGetState", 0, ctypes.byref(flags), ctypes.byref(active))
    states.append(active.value)
states.append(driver.attempt("cuCtxSynchronize"))
show(states=states)
"""
    )
    with machine(tmp_path) as device:
        assert device.script(text) == [{"states": [True, 1, 0, 201]}]
        (row,) = device.oracle.truths()
    assert (row.contexts, row.held_bytes) == (0, 0)


def test_green_contexts_have_streams_and_a_handle_of_their_own(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
driver = Driver()
whole, part = (ctypes.c_ubyte * 160)(), (ctypes.c_ubyte * 160)()
count, described = ctypes.c_uint(1), ctypes.c_void_p()
green, view, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
driver.call("cuDeviceGetDevResource", 0, whole, 1)
driver.call("cuDevSmResourceSplitByCount", part, ctypes.byref(count), whole, None, 0, 16)
driver.call("cuDevResourceGenerateDesc", ctypes.byref(described), part, 1)
driver.call("cuGreenCtxCreate", ctypes.byref(green), described, 0, 1)
driver.call("cuCtxFromGreenCtx", ctypes.byref(view), green)
driver.call("cuGreenCtxStreamCreate", ctypes.byref(stream), green, 1, 0)
driver.launch(driver.function("busy_5us"), stream)
driver.synchronize(stream)
driver.call("cuCtxSetCurrent", view)
driver.launch(driver.function("busy_5us"))
driver.call("cuCtxSynchronize")
show(own=view.value != driver.context.value)
driver.call("cuCtxSetCurrent", driver.context)
driver.call("cuGreenCtxDestroy", green)
"""
    )
    with machine(tmp_path) as device:
        assert device.script(text) == [{"own": True}]
        (row,) = device.oracle.truths()
    assert (row.launches, row.busy_ns) == (2, 10_000)
