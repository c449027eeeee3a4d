"""Nested, abandoned and twice seen calls: each call counts once, or a counter tells of it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpugauge.discovery.inspect import Inspector
from gpugauge.model.abi import Cause, Loss, Slot
from sim.build import compiler
from tests.linux.tracing import MODES, VENDOR, Session, Traced, traced

SOURCE = Path(__file__).parent / "jumps.c"
FIRST = 2
"""Calls before the first jump, of Slot.CONTEXT: retain, and use."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jumps") / "jumps"
    subprocess.run([compiler(), "-O2", str(SOURCE), "-o", str(made), "-ldl"], check=True)
    return made


@contextmanager
def jumping(it: Traced, program: Path, way: str, times: int) -> Iterator[subprocess.Popen[str]]:
    """Start the program; it waits for a line."""
    command = [str(program), str(it.machine.library), way, str(times)]
    with it.machine.start(command, stdin=subprocess.PIPE) as child:
        try:
            expect(child, "ready")
            yield child
        finally:
            child.kill()


def expect(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line.startswith(word), (line, child.poll())


def go_on(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.mark.parametrize("mode", MODES)
def test_calls_inside_a_call_are_not_counted(tmp_path: Path, program: Path, mode: str) -> None:
    with traced(tmp_path, mode) as it, jumping(it, program, "nested", 101) as child:
        go_on(child)
        expect(child, "jumped")
        assert it.oracle.calls()["cuCtxSetCurrent"] == 3 * 101 + 1
        assert it.counted().calls == {Slot.CONTEXT: FIRST + 101}
        assert it.losses() == {}


@pytest.mark.parametrize("mode", MODES)
def test_calls_that_are_left_by_longjmp(tmp_path: Path, program: Path, mode: str) -> None:
    with traced(tmp_path, mode) as it, jumping(it, program, "jump", 10_007) as child:
        go_on(child)
        expect(child, "jumped")
        (process,) = it.oracle.processes()
        assert process.calls["cuDeviceGetUuid"].entered == 10_007
        assert process.calls["cuDeviceGetUuid"].ended == 0
        # The last one is still thought open, until the thread calls again.
        assert it.losses() == {Loss.ABANDONED_CALLS: 10_006}
        go_on(child)
        expect(child, "done")
        assert it.losses() == {Loss.ABANDONED_CALLS: 10_007}
        assert it.counted().calls == {Slot.CONTEXT: FIRST + 1}


def test_calls_on_a_signal_stack(tmp_path: Path, program: Path) -> None:
    """They look like calls after a jump: counted, and the outer one is given up."""
    with traced(tmp_path) as it, jumping(it, program, "stack", 53) as child:
        go_on(child)
        expect(child, "jumped")
        assert it.losses() == {Loss.ABANDONED_CALLS: 53}
        assert it.counted().calls == {Slot.CONTEXT: FIRST + 3 * 53}


def test_a_wait_that_is_left_stops_to_count(tmp_path: Path, program: Path) -> None:
    with traced(tmp_path) as it, jumping(it, program, "hang", 1) as child:
        it.machine.control.hang("cuCtxSynchronize_v2")
        go_on(child)
        while not it.device_open(child.pid):
            time.sleep(0.005)
        first = it.device_open(child.pid)[Cause.SYNCHRONIZE]
        second = it.device_open(child.pid)[Cause.SYNCHRONIZE]
        assert second.oldest_symbol == "cuCtxSynchronize_v2"
        assert second.oldest_ns > first.oldest_ns
        waited = it.process(child.pid).blocked_wall_ns
        assert waited > 0
        assert it.process(child.pid).blocked_wall_ns > waited
        child.send_signal(signal.SIGUSR1)
        expect(child, "jumped")
        go_on(child)
        expect(child, "done")
        assert it.losses() == {Loss.ABANDONED_CALLS: 1}
        assert it.device_open(child.pid) == {}
        stopped = it.process(child.pid).blocked_wall_ns
        assert stopped > waited
        time.sleep(0.01)
        assert it.process(child.pid).blocked_wall_ns == stopped


@pytest.mark.parametrize("mode", MODES)
def test_two_links_to_one_file_count_once(tmp_path: Path, mode: str) -> None:
    with traced(tmp_path, mode) as it:
        library = Inspector(VENDOR).inspect(str(it.machine.library)).library
        # As two overlay mounts over one lower file show it: another device and inode.
        it.tracer.attach(replace(library, file_id=replace(library.file_id, inode=1)))
        with Session(it) as session:
            text = "for _ in range(211): driver.launch(function)\ndriver.drain()\n"
            session.run(text + "[attempt('cuCheckpointProcessLock', 1, None) for _ in range(7)]")
            assert it.counted().calls == it.truth().calls
            assert it.counted().launch_threads == 32 * 211
            assert it.losses() == {Loss.DUPLICATE_HITS: it.truth().calls.total()}
        assert it.device(session.pid).known_idle_ns is not None
