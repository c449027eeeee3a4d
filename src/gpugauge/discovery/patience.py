"""Reading of /proc that one process cannot hang.

Reading /proc/PID/maps takes a lock that the process may hold while it waits for
a file server that is gone (`mmap` on NFS, for one). The reader then waits in
Linux, where nothing in Python can reach it. So reading runs in a thread that says
which process it is at; if it stays at one for too long it is left behind, and
that process is passed over until the thread comes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from gpugauge.errors import UnavailableError
from gpugauge.units import NS_PER_SECOND, seconds

PATIENCE_NS = NS_PER_SECOND
STUCK_LIMIT = 64
"""Threads left behind: with so many, nothing more is read."""

_T = TypeVar("_T")


class _LeftBehind(BaseException):
    """Ends a thread that came back when nobody waits for it any more."""


class _Reader(threading.Thread):
    """Runs one step, and notes which process it is at."""

    def __init__(self, step: Callable[[], object]) -> None:
        super().__init__(name="proc-reader", daemon=True)
        self._step = step
        self.at: tuple[int, int] | None = None
        """(pid, since when)."""
        self.result: object = None
        self.error: BaseException | None = None
        self.left_behind = False

    def run(self) -> None:
        try:
            self.result = self._step()
        except _LeftBehind:
            pass
        except BaseException as error:  # handed to who waits for it
            self.error = error


class Patience:
    """Runs steps that read /proc, process by process.

    Args:
        patience_ns: How long one process may take.
    """

    def __init__(self, patience_ns: int = PATIENCE_NS) -> None:
        self._patience_ns = patience_ns
        self._stuck: dict[int, _Reader] = {}

    def stuck(self) -> frozenset[int]:
        """Pids that are passed over, because a thread still waits for their answer."""
        self._stuck = {pid: reader for pid, reader in self._stuck.items() if reader.is_alive()}
        return frozenset(self._stuck)

    @staticmethod
    def at(pid: int) -> None:
        """Say, from within a step, which process is read next."""
        reader = threading.current_thread()
        if isinstance(reader, _Reader):
            if reader.left_behind:
                raise _LeftBehind
            reader.at = pid, time.monotonic_ns()

    def run(self, step: Callable[[], _T]) -> _T:
        """Run a step; again from its beginning when it got stuck at a process.

        Raises:
            UnavailableError: Too many processes do not answer.
        """
        while len(self.stuck()) < STUCK_LIMIT:
            reader = _Reader(step)
            reader.start()
            while reader.is_alive():
                reader.join(seconds(self._patience_ns) / 4)
                at = reader.at
                if reader.is_alive() and at and time.monotonic_ns() - at[1] > self._patience_ns:
                    reader.left_behind = True
                    self._stuck[at[0]] = reader
                    break
            else:
                if reader.error is not None:
                    raise reader.error
                return reader.result  # type: ignore[return-value]
        raise UnavailableError(
            f"{STUCK_LIMIT} processes do not let their memory maps be read.",
            "Look for processes that wait for a file server: `ps` hangs at them too.",
        )
