"""The off switch of a node: a signal, an annotation of the node, a ConfigMap.

SIGUSR1 says off, SIGUSR2 takes that back. Whatever says off wins, and probes come back
when nothing does any more.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol

from gpugauge.model.cluster import OffSwitch

LOG = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 3.0
"""So long an agent that starts waits to be told that its node is off, before it attaches."""
UNREAD_SECONDS = 5.0
"""A place that cannot be read for this long is told: shorter gaps are usual."""


class Place(Protocol):
    """One place outside that can say off."""

    source: str
    where: str

    @property
    def heard(self) -> bool:
        """It was read once, or there was a reason why not."""

    @property
    def state(self) -> OffSwitch:
        """What it says now."""

    def start(self) -> None:
        """Begin to watch."""

    def stop(self) -> None:
        """End it."""


class Switch:
    """Whether the probes of this node are off. Made before the agent: signals would end it."""

    def __init__(self) -> None:
        """Take over both signals."""
        self._signal_off = False
        self._places: Sequence[Place] = ()
        self._turn: Callable[[bool], None] | None = None
        self._done = False
        self._lock = threading.Lock()
        """Never taken by the signal handler, which may interrupt who holds it."""
        self._unread: dict[str, float] = {}
        """Since when a place cannot be read; infinite once that was told."""
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._on_signal)

    def watch(self, places: Sequence[Place]) -> None:
        """Watch places beside the signal; return when each was heard, or after some seconds."""
        self._places = places
        for place in places:
            place.start()
        until = time.monotonic() + FIRST_ANSWER_SECONDS
        while not all(place.heard for place in places) and time.monotonic() < until:
            time.sleep(0.005)

    @property
    def off(self) -> bool:
        """Whether anything says off."""
        return any(state.off for state in self.states())

    def states(self) -> tuple[OffSwitch, ...]:
        """Return what each place says now, the signal first."""
        by_signal = OffSwitch(source="signal", off=self._signal_off)
        return (by_signal, *(place.state for place in self._places))

    def connect(self, turn: Callable[[bool], None], *, off: bool) -> None:
        """Say what turns the probes, with True for on, and whether they are off already."""
        with self._lock:
            self._turn, self._done = turn, off
            if off:
                LOG.warning("probes are switched off by %s", self._who())
        self.apply()

    def apply(self) -> None:
        """Turn the probes if what is said has changed. For any thread, but for no handler."""
        with self._lock:
            off = self.off
            if self._turn is None or off is self._done:
                return
            self._done = off
            if off:
                LOG.warning("probes are switched off by %s", self._who())
            else:
                LOG.warning("probes are switched on: nothing says off any more")
            self._turn(not off)

    def report(self) -> tuple[OffSwitch, ...]:
        """Return what each place says now; one that cannot be read is told once."""
        states = self.states()
        now = time.monotonic()
        for place, state in zip(self._places, states[1:], strict=True):
            if not state.error:
                if self._unread.pop(place.source, 0.0) == float("inf"):
                    LOG.info("the off switch by %s can be read again", place.where)
            elif now - self._unread.setdefault(place.source, now) >= UNREAD_SECONDS:
                self._unread[place.source] = float("inf")
                LOG.warning(
                    "the off switch by %s cannot be read, what it said last holds: %s",
                    place.where,
                    state.error,
                )
        return states

    def close(self) -> None:
        """Watch no more."""
        with self._lock:
            self._turn = None
        for place in self._places:
            place.stop()

    def _who(self) -> str:
        where = {place.source: place.where for place in self._places} | {"signal": "SIGUSR1"}
        return " and ".join(where[state.source] for state in self.states() if state.off)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal_off = number == signal.SIGUSR1
