"""Where the threads of a Python process wait: lines of its code, sampled from outside.

py-spy reads the stacks without stopping the process (`--nonblocking`), in a process of
its own with a deadline, because reading another's memory may hang. It is asked only on
demand, and rarely: never in the tick.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpugauge.diagnosis.text import clean
from gpugauge.errors import UnavailableError
from gpugauge.model.finding import CodeLine

SAMPLES = 40
DEADLINE_SECONDS = 8.0
DUMP_SECONDS = 2.0
REST_SECONDS = 30.0
"""Between two looks at one process."""
LIMIT_BYTES = 4 * 1024 * 1024
LIMIT_THREADS = 256
LIMIT_FRAMES = 512
SHOWN = 5

_LIBRARY = ("site-packages/", "dist-packages/", "/lib/python", "<frozen", "<string>")
"""Frames of these are not the program's own."""
_RESTING = frozenset(
    {"threading.py", "queue.py", "selectors.py", "socket.py", "connection.py", "thread.py"}
)
"""A thread whose innermost frame is here rests, and does not wait for a GPU."""
_RESTING_CALLS = frozenset({0, 23, 43, 45, 47, 61, 232, 270, 281, 288})
"""read, select, accept, recvfrom, recvmsg, wait4, epoll_wait, pselect6, epoll_pwait, accept4 of
x86-64: a thread in one of these waits for input. The driver waits in none of them."""
_FUTEX = 202
"""Most often a lock of the program itself (PyTorch's backward() waits so for its own thread), but a
driver may wait in it too: it counts only where no other thread has let go of Python's lock."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One thread at one moment."""

    file: str
    line: int
    function: str
    holds_gil: bool
    """It runs Python; a thread inside the driver has let go of the lock."""
    tid: int = 0
    """0: not known."""


class StackSampler:
    """Samples Python processes, each at most every 30 s."""

    def __init__(
        self,
        *,
        dump: Callable[[int], bytes] | None = None,
        proc: str = "/proc",
        now_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make one.

        Args:
            dump: returns py-spy's JSON for a pid; for tests.
            proc: where the process's threads are.
            now_seconds: a monotonic clock.
            sleep: waits so many seconds.
        """
        self._dump = dump or _py_spy
        self._proc = proc
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._looked: dict[int, float] = {}

    def lines(self, pid: int, samples: int = SAMPLES) -> tuple[CodeLine, ...]:
        """Return where blocked threads of a process were, the most frequent first.

        Raises:
            UnavailableError: py-spy is not there, may not look, or the process is not Python.
        """
        now = self._now_seconds()
        if now - self._looked.get(pid, -REST_SECONDS) < REST_SECONDS:
            raise UnavailableError(
                f"Process {pid} was sampled less than {REST_SECONDS:.0f} s ago.", "Wait a little."
            )
        self._looked[pid] = now
        found: list[Sample] = []
        locked: list[Sample] = []
        failed: UnavailableError | None = None
        for number in range(samples):
            if self._now_seconds() - now > DEADLINE_SECONDS:
                break
            try:
                for sample in parse_dump(self._dump(pid)):
                    call = self._call(pid, sample.tid)
                    if call not in _RESTING_CALLS:
                        (locked if call == _FUTEX else found).append(sample)
            except UnavailableError as error:
                failed = error  # a stack that moved while it was read: the next may do
                if number == 2 and not (found or locked):
                    break
            self._sleep(0.023)  # no multiple of a round step time
        if not (found or locked) and failed is not None:
            raise failed
        outside = any(not sample.holds_gil for sample in found)
        return count_lines(found if outside else found + locked)

    def _call(self, pid: int, tid: int) -> int | None:
        """Return the system call that a thread waits in; None for none, or where it is not told."""
        try:
            call = Path(f"{self._proc}/{pid}/task/{tid}/syscall").read_text().split()[0]
        except (OSError, IndexError):
            return None
        return int(call) if call.isdecimal() else None


def parse_dump(data: bytes) -> list[Sample]:
    """Return the threads that py-spy saw at work or waiting, resting ones left out.

    Raises:
        UnavailableError: this is not py-spy's JSON.
    """
    try:
        if len(data) > LIMIT_BYTES:
            raise ValueError
        threads = json.loads(data)
        if not isinstance(threads, list):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise UnavailableError(
            "py-spy answered something that is not JSON of stacks.", "Update py-spy."
        ) from error
    return [sample for thread in threads[:LIMIT_THREADS] for sample in _samples(thread)]


def count_lines(samples: Iterable[Sample]) -> tuple[CodeLine, ...]:
    """Return lines by how often they were seen in threads that had let go of the lock."""
    everything = list(samples)
    waiting = [s for s in everything if not s.holds_gil] or everything
    counts = Counter((s.file, s.line, s.function) for s in waiting)
    return tuple(
        CodeLine(file, line, function, count / len(waiting))
        for (file, line, function), count in counts.most_common(SHOWN)
    )


def _samples(thread: Any) -> Iterator[Sample]:
    frames = thread.get("frames") if isinstance(thread, dict) else None
    if not isinstance(frames, list) or not frames:
        return
    named = [frame for frame in map(_frame, frames[:LIMIT_FRAMES]) if frame is not None]
    if not named or Path(named[0][0]).name in _RESTING:
        return
    own = [frame for frame in named if not any(mark in frame[0] for mark in _LIBRARY)]
    file, line, function = (own or named)[0]
    tid = thread.get("os_thread_id")
    yield Sample(
        clean(Path(file).name),
        line,
        clean(function),
        thread.get("owns_gil") is True,
        tid if type(tid) is int and 0 < tid < 1 << 31 else 0,
    )


def _frame(frame: Any) -> tuple[str, int, str] | None:
    if not isinstance(frame, dict):
        return None
    file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
    if not isinstance(file, str) or not isinstance(name, str) or type(line) is not int:
        return None
    return file[-512:], max(0, min(line, 10_000_000)), name


def _py_spy(pid: int) -> bytes:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise UnavailableError("py-spy is not installed.", "pip install py-spy")
    command = [program, "dump", "--nonblocking", "--json", "--full-filenames", "--pid", str(pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, errors = process.communicate(timeout=DUMP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise UnavailableError(
                f"py-spy did not answer for process {pid} within {DUMP_SECONDS:.0f} s.",
                "Its memory cannot be read now.",
            ) from None
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        why = clean(lines[-1]) if lines else f"exit code {process.returncode}"
        raise UnavailableError(
            f"The stacks of process {pid} cannot be read: {why}.",
            "Only Python programs have them, and reading needs root or CAP_SYS_PTRACE.",
        )
    return out
