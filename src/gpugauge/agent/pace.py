"""How often the agent reads: as often as set, less where that would cost too much.

A tick costs by process and by thread that uses a GPU, so a full node's costs a hundred times
an empty one's. Counters are totals, and lose nothing by being read later. What wants to be
fresh asks: a reader of `/metrics` or of the API gets numbers that are at most a tick old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CPU_RATIO = 0.003
"""Of one core, for all ticks that nobody asked for."""
SLOWEST_SECONDS = 5.0
"""Ticks are never further apart: at that pace every incident of the suite is still named within
two scrapes of 15 s."""
RENEWAL_SECONDS = 0.5
"""A reader waits so long for a tick; then it gets what there is."""
SMOOTHING = 0.25
"""Weight of the newest tick in what a tick costs."""


class Pace:
    """Decides when the next tick is due, and lets readers ask for one."""

    def __init__(
        self,
        tick_seconds: float,
        wake: Callable[[], None] = lambda: None,
        *,
        cpu_ratio: float = CPU_RATIO,
        now_seconds: Callable[[], float] = time.monotonic,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """Begin with nothing known of the cost.

        Args:
            tick_seconds: Ticks are never closer together.
            wake: Ends the wait of the thread that ticks.
            cpu_ratio: What ticks may take of one core.
            now_seconds: A clock that never goes back.
            cpu_seconds: CPU time of the thread that ticks.
        """
        self.tick_seconds = tick_seconds
        self._wake = wake
        self._cpu_ratio = cpu_ratio
        self._now_seconds = now_seconds
        self._cpu_seconds = cpu_seconds
        self._turned = threading.Condition()
        self._asked = False
        self._ticks = 0
        self._read_at = float("-inf")
        self._cost_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Time between two ticks that nobody asks for."""
        wanted = self._cost_seconds / self._cpu_ratio
        return max(self.tick_seconds, min(wanted, SLOWEST_SECONDS))

    @property
    def asked(self) -> bool:
        """Whether a reader waits for a tick."""
        return self._asked

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Tick within this: it is measured, and readers that wait are let go on."""
        began, cpu = self._now_seconds(), self._cpu_seconds()
        try:
            yield
        finally:
            cost = self._cpu_seconds() - cpu
            weight = SMOOTHING if self._ticks else 1.0
            self._cost_seconds += (cost - self._cost_seconds) * weight
            with self._turned:
                self._ticks += 1
                self._read_at, self._asked = began, False
                self._turned.notify_all()

    def renew(self) -> None:
        """Return when the newest snapshot is at most a tick old, or after a moment."""
        with self._turned:
            if self._now_seconds() - self._read_at < self.tick_seconds:
                return
            before, self._asked = self._ticks, True
            self._wake()
            self._turned.wait_for(lambda: self._ticks != before, RENEWAL_SECONDS)
