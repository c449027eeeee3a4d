"""Results of the tick before: what did not change is not computed again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """A function of unchanging values; remembers what was asked for in this tick and the last."""

    def __init__(self, make: Callable[[Key], Value]) -> None:
        self._make = make
        self._now: dict[Key, Value] = {}
        self._before: dict[Key, Value] = {}

    def turn(self) -> None:
        """Begin a tick: forget what was not asked for in the one before."""
        self._before, self._now = self._now, {}

    def __call__(self, key: Key) -> Value:
        """Return the result for a key; it is shared, so it must not be changed."""
        try:
            return self._now[key]
        except KeyError:
            pass
        try:
            found = self._before[key]
        except KeyError:
            found = self._make(key)
        self._now[key] = found
        return found
