"""Fork, exec, short lives and threads that end while counters are read."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpugauge.model.abi import Slot
from gpugauge.model.snapshot import Snapshot
from sim.machine import workload_command
from tests.linux.tracing import Traced, traced

ENDLESS = """
import os, sys
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
print(os.getpid(), flush=True)
while True:
    driver.launch(function)
    driver.synchronize()
"""
THREADS = """
import os, threading
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
def run():
    driver.library.cuCtxSetCurrent(driver.context)
    for _ in range(23):
        driver.library.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
for _ in range(61):
    workers = [threading.Thread(target=run) for _ in range(7)]
    [each.start() for each in workers]
    [each.join() for each in workers]
"""


def read_while(it: Traced, child: subprocess.Popen[str]) -> list[Snapshot]:
    """Read until a program ends; return every snapshot, and one more after its end."""
    snapshots = []
    while child.poll() is None:
        snapshots.append(it.tick())
        time.sleep(0.01)
    assert child.returncode == 0, child.stderr and child.stderr.read()
    return [*snapshots, it.tick()]


def launches(snapshot: Snapshot) -> int:
    return sum(
        series.operations[Slot.LAUNCH].calls
        for series in snapshot.series
        if Slot.LAUNCH in series.operations
    )


def test_threads_that_end_while_counters_are_read(tmp_path: Path) -> None:
    with traced(tmp_path, instant=1) as it:
        with it.machine.start([sys.executable, "-c", THREADS]) as child:
            seen = [launches(each) for each in read_while(it, child)]
        assert seen == sorted(seen)
        assert seen[-1] == 61 * 7 * 23 == it.truth().calls[Slot.LAUNCH]
        assert it.counted().calls == it.truth().calls
        assert it.losses() == {}


@pytest.mark.parametrize("exec_child", [0, 1])
def test_fork_and_exec(tmp_path: Path, exec_child: int) -> None:
    with traced(tmp_path) as it:
        command = workload_command("fork", exec_child=exec_child)
        with it.machine.start(command) as child:
            read_while(it, child)
        pids = [process.pid for process in it.oracle.processes()]
        assert len(pids) == 2
        assert len({number for _, number in it.seen}) == 2
        assert it.counted().calls == it.truth().calls
        assert it.counted().errors == it.truth().errors
        assert it.reap_ended() == 2


def test_exec_ends_one_process_and_begins_another(tmp_path: Path) -> None:
    """The same pid, two process numbers, each with its own counts."""
    text = """
import os, sys
from sim.workloads.driver import Driver
driver = Driver()
driver.allocate(4099)
function = driver.function("busy_1us")
for _ in range(int(sys.argv[1])):
    driver.launch(function)
driver.drain()
if sys.argv[2:]:
    os.execv(sys.executable, [sys.executable, "-c", os.environ["TEXT"], *sys.argv[2:]])
"""
    with traced(tmp_path) as it:
        command = [sys.executable, "-c", text, "13", "29", "31"]
        with it.machine.start(command, extra={"TEXT": text}) as child:
            read_while(it, child)
        found = sorted((p for p in it.tick().processes), key=lambda p: p.number)
        assert [p.pid for p in found] == [child.pid] * 3
        assert [p.devices[0].operations[Slot.LAUNCH].calls for p in found] == [13, 29, 31]
        assert not any(p.alive for p in found)
        assert it.counted().calls == it.truth().calls


def test_short_lived_processes(tmp_path: Path) -> None:
    with traced(tmp_path, instant=1) as it:
        with it.machine.start(workload_command("short_lived", processes=37)) as child:
            snapshots = read_while(it, child)
        assert launches(snapshots[-1]) == 37 * 17
        assert it.counted().calls == it.truth().calls
        assert it.reap_ended() == 37
        assert launches(it.tick()) == 37 * 17


def test_reaped_slots_serve_more_processes_than_there_are(tmp_path: Path) -> None:
    """Reaping hands slots back: more processes than slots, one after the other."""
    entries = {"processes": 3, "free_slots": 3, "process_slots": 3}
    total = 0
    with traced(tmp_path, map_entries=entries, instant=1) as it:
        for _ in range(5):
            it.machine.workload("short_lived", processes=2, launches=11)
            it.tick()
            assert it.reap_ended() == 2
            total += 22
            assert launches(it.tick()) == total
        assert it.losses() == {}


def test_a_killed_process_keeps_its_counts(tmp_path: Path) -> None:
    with traced(tmp_path) as it:
        with it.machine.start([sys.executable, "-c", ENDLESS]) as child:
            assert child.stdout is not None
            child.stdout.readline()
            before = it.tick()
            while launches(it.tick()) < launches(before) + 101:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
        (process,) = it.tick().processes
        assert not process.alive
        # The call that was under way was entered, and did not end.
        truth = it.truth().calls
        counted = it.counted().calls
        for slot in (Slot.LAUNCH, Slot.SYNCHRONIZE):
            assert 0 <= truth[slot] - counted[slot] <= 1
        assert it.reap_ended() == 1


def test_a_first_thread_that_ends_leaves_the_others_counted(tmp_path: Path) -> None:
    """pthread_exit in main: the process lives on."""
    text = """
import ctypes, threading, time
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
libc = ctypes.CDLL(None)
def run():
    time.sleep(0.2)
    driver.library.cuCtxSetCurrent(driver.context)
    for _ in range(41):
        driver.library.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    driver.library.cuCtxSynchronize()
    libc._exit(0)
threading.Thread(target=run).start()
driver.launch(function)
ctypes.CDLL(None).syscall(60, 0)  # SYS_exit: this thread alone
"""
    with traced(tmp_path) as it:
        with it.machine.start([sys.executable, "-c", text]) as child:
            child.wait(20)
        (process,) = it.tick().processes
        assert not process.alive
        assert process.devices[0].operations[Slot.LAUNCH].calls == 42
        assert it.counted().calls == it.truth().calls
