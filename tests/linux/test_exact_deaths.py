"""Threads that die inside a call: how long they waited is not lost with them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import Process, ProcessDevice
from tests.linux.tracing import MODES, Session, Traced, gone, traced


def working(it: Traced, pid: int) -> ProcessDevice:
    """Return the device on which the process launched."""
    devices = it.process(pid).devices
    (found,) = (each for each in devices if each.operations.get(Slot.LAUNCH))
    return found


def until_open(it: Traced, pid: int, cause: Cause) -> int:
    """Wait until a call is seen open for 20 ms, and return its age."""
    while True:
        call = it.device_open(pid).get(cause)
        if call is not None and call.blocked_ns > 20_000_000:
            return call.blocked_ns
        time.sleep(0.005)


def kill(it: Traced, session: Session) -> Process:
    """Kill a process and return it as it is after its end."""
    session._child.kill()
    session._child.wait(30)
    while not gone(session.pid) or it.process(session.pid).alive:
        time.sleep(0.005)
    return it.process(session.pid)


@pytest.mark.parametrize("mode", MODES)
def test_a_process_killed_inside_a_synchronization(tmp_path: Path, mode: str) -> None:
    with traced(tmp_path, mode) as it, Session(it) as session:
        session.run("driver.launch(driver.function('busy_60000000us'))")
        began_ns = time.monotonic_ns()
        session.start("driver.synchronize()")
        waited_ns = until_open(it, session.pid, Cause.SYNCHRONIZE)
        before = working(it, session.pid)
        assert before.blocked_ns[Cause.SYNCHRONIZE] == 0
        process = kill(it, session)
        at_most_ns = time.monotonic_ns() - began_ns
        after = working(it, session.pid)
        blocked_ns = after.blocked_ns[Cause.SYNCHRONIZE]
        assert waited_ns <= blocked_ns <= at_most_ns
        assert after.open_calls == {}
        # The call did not return: it is no synchronization that was made, but one wait.
        assert Slot.SYNCHRONIZE not in it.counted([session.pid]).calls
        assert sum(after.histograms[Cause.SYNCHRONIZE].counts) == 1
        assert after.histograms[Cause.SYNCHRONIZE].sum_ns == blocked_ns
        # Blocked wall time is in units of 64 ns, rounded down.
        assert blocked_ns - 128 <= process.blocked_wall_ns <= blocked_ns
        assert it.losses() == {}


def test_a_thread_that_dies_while_its_process_lives(tmp_path: Path) -> None:
    """By pthread_exit from a signal's handler: no other way leaves the process alive."""
    with traced(tmp_path) as it, Session(it) as session:
        session.run(
            "import signal\n"
            "driver.launch(driver.function('busy_60000000us'))\n"
            "libc = ctypes.CDLL(None)\n"
            "leave = ctypes.cast(libc.pthread_exit, c_void_p)\n"
            "libc.signal(10, leave)\n"
            "def wait():\n"
            "    driver.use()\n"
            "    driver.synchronize()\n"
            "waiting = threading.Thread(target=wait, daemon=True)\n"
            "waiting.start()\n"
        )
        waited_ns = until_open(it, session.pid, Cause.SYNCHRONIZE)
        session.run("libc.pthread_kill(c_uint64(waiting.ident), 10)")
        while it.device_open(session.pid):
            time.sleep(0.005)
        after = working(it, session.pid)
        assert after.blocked_ns[Cause.SYNCHRONIZE] >= waited_ns
        session._child.kill()


def test_a_copy_and_an_allocation_that_never_end(tmp_path: Path) -> None:
    """They do not wait by nature: open for long, they count as the gauge of open calls says."""
    with traced(tmp_path) as it:
        for symbol, text, cause in (
            ("cuMemAlloc_v2", "driver.allocate(4096)", Cause.ALLOCATION),
            ("cuLaunchKernel", "driver.launch(function)", Cause.LAUNCH_QUEUE),
        ):
            with Session(it) as session:
                session.run("driver.launch(function); driver.synchronize()")
                it.machine.control.hang(symbol)
                session.start(text)
                waited_ns = until_open(it, session.pid, cause)
                process = kill(it, session)
                it.machine.control.heal(symbol)
                after = working(it, session.pid)
                assert after.blocked_ns[cause] >= waited_ns
                assert process.blocked_wall_ns >= waited_ns
