"""Which processes were there before their probes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpugauge.discovery.scan import start_time

KEPT = 16_384


def _ignore(_pid: int) -> None:
    pass


class Origins:
    """Processes that mapped a library before, or while, its probes were attached."""

    def __init__(
        self, note: Callable[[int], None] = _ignore, drop: Callable[[int], None] = _ignore
    ) -> None:
        """Take whom to tell of each pid that is noted, and of each that is dropped."""
        self._note = note
        self._drop = drop
        self._before: dict[int, int] = {}
        self._lock = threading.Lock()

    def mapped_before(self, pid: int, started: int) -> None:
        """Note a process, by pid and start time in clock ticks."""
        with self._lock:
            if len(self._before) >= KEPT:
                self._before.pop(next(iter(self._before)))
            self._before[pid] = started
        self._note(pid)

    def forget(self, pid: int) -> None:
        """Drop a process that ended or began another program."""
        with self._lock:
            known = self._before.pop(pid, None)
        if known is not None:
            self._drop(pid)

    def complete(self, pid: int) -> bool:
        """Return whether all of the process's calls were seen."""
        with self._lock:
            before = self._before.get(pid)
        return before is None or before != start_time(pid)
