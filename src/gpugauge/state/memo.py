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


class LanesMemo(Generic[Value]):
    """A function of a tuple and a number, remembered as in Memo, but by which tuple it is.

    A tuple of hundreds of lanes takes longer to hash than to find, and who asks again has
    the same one.
    """

    def __init__(self, make: Callable[[tuple[int, ...], int], Value]) -> None:
        self._make = make
        self._now: dict[tuple[int, int], tuple[tuple[int, ...], Value]] = {}
        self._before: dict[tuple[int, int], tuple[tuple[int, ...], Value]] = {}

    def turn(self) -> None:
        """Begin a tick: forget what was not asked for in the one before."""
        self._before, self._now = self._now, {}

    def __call__(self, lanes: tuple[int, ...], more: int = 0) -> Value:
        """Return the result; it is shared, so it must not be changed."""
        key = (id(lanes), more)
        found = self._now.get(key)
        if found is None:
            # What is remembered is kept alive with its result: no other tuple has its id.
            found = self._before.get(key) or (lanes, self._make(lanes, more))
            self._now[key] = found
        return found[1]
