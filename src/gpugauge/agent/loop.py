"""The tick: at even times, woken by ends of processes, ended by a signal."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from gpugauge.agent.agent import Agent
from gpugauge.agent.pace import Pace
from gpugauge.agent.switch import Switch
from gpugauge.agent.watchdog import Watchdog
from gpugauge.model.snapshot import Snapshot

LOG = logging.getLogger(__name__)
WAIT_SECONDS = (0.25, 0.1)
"""Between two looks at what signals set; the second, while NVML is asked often."""


class Stop:
    """Set by SIGTERM and SIGINT."""

    def __init__(self) -> None:
        """Take over both signals."""
        self.event = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.event.set()


def run_ticks(
    agent: Agent,
    stop: threading.Event,
    pace: Pace,
    publish: Callable[[Snapshot], bool],
    switch: Switch | None = None,
) -> None:
    """Tick until stopped, or until `publish` returns False.

    A tick that stands still is told in the log, with what it stands in.

    A tick that comes late is not made up for: the next one is at its even time. One comes
    early where a reader asks for it, and where a process began or ended: a pod that lives
    for seconds is looked up while it is there.
    """
    watchdog = Watchdog()
    try:
        _ticks(agent, stop, pace, publish, switch=switch, watchdog=watchdog)
    finally:
        watchdog.close()


def _ticks(
    agent: Agent,
    stop: threading.Event,
    pace: Pace,
    publish: Callable[[Snapshot], bool],
    *,
    switch: Switch | None,
    watchdog: Watchdog,
) -> None:
    due = time.monotonic()
    while not stop.is_set():
        watchdog.fed()
        began = time.monotonic()
        try:
            with pace.ticking():
                if not publish(agent.tick()):
                    return
        except Exception:  # one bad tick must not end the agent: /healthz tells of many
            LOG.exception("a tick failed; the next one is tried")
        due = min(due, began) + pace.seconds
        now = time.monotonic()
        if due <= now:
            due = now + pace.seconds
        while not stop.is_set() and not pace.asked and (left := due - time.monotonic()) > 0:
            # An event only shortens the wait for what must not wait: releasing a library.
            if agent.wait(min(left, WAIT_SECONDS[agent.asks_soon])) or agent.asks_soon:
                agent.take_events()
            if agent.news:
                due = min(due, began + pace.tick_seconds)
            if switch is not None:
                switch.apply()
