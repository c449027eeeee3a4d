"""The off switch of a node: SIGUSR1 takes every probe off, SIGUSR2 puts them back."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


class Switch:
    """What the signals ask for. Made before the agent: unhandled, they would end it."""

    def __init__(self) -> None:
        """Take over both signals."""
        self._wanted = True
        self._done = True
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._wanted = number == signal.SIGUSR2

    def apply(self, turn: Callable[[bool], None]) -> None:
        """Call `turn` with what is wanted, if that has changed."""
        wanted = self._wanted
        if wanted is not self._done:
            self._done = wanted
            turn(wanted)
