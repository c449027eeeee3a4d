"""Counters that never go back, whatever becomes of the parts they are sums of.

Two owners can share one label set: a StatefulSet's pod and the one before it,
or all that the budget adds up in `other`. When one of them is retired the sum
falls, and Prometheus would take the fall for a restart and count what is left
as new. So what was shown is kept, and later growth is added to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Numbers = tuple[float, ...]
Labels = tuple[str, ...]
_Given = TypeVar("_Given")


class Rising:
    """Remembers what was shown for each series, and forgets series long gone."""

    def __init__(self, keep_seconds: float, now_seconds: Callable[[], float]) -> None:
        """Make one.

        Args:
            keep_seconds: how long a series that is absent is remembered.
            now_seconds: a clock that never goes back.
        """
        self._keep_seconds = keep_seconds
        self._now_seconds = now_seconds
        self._now = now_seconds()
        self._before = self._now
        """When the rendering before began."""
        self._families: dict[str, RisingFamily] = {}

    def begin(self) -> None:
        """Begin a rendering."""
        self._before, self._now = self._now, self._now_seconds()

    def family(self, name: str) -> RisingFamily:
        """Return what is remembered of one metric."""
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = RisingFamily()
        return found

    def end(self) -> None:
        """End a rendering: forget what was absent for too long."""
        oldest = self._now - self._keep_seconds
        for family in self._families.values():
            family.turn(self._before, oldest)


class RisingFamily:
    """Remembers what was shown for the series of one metric."""

    def __init__(self) -> None:
        self._given: dict[Labels, float] = {}
        self._next: dict[Labels, float] = {}
        """Those of the rendering under way."""
        self._many: dict[Labels, Numbers] = {}
        self._next_many: dict[Labels, Numbers] = {}
        self._lift: dict[Labels, Numbers] = {}
        self._absent: dict[Labels, float] = {}
        """When a series that is absent was last there."""

    def at_least(self, labels: Labels, given: float) -> float:
        """Return what to show for this number: never less than the last time."""
        before = self._given.get(labels, given)
        self._next[labels] = given
        if given < before:
            (lift,) = self._lift.get(labels, (0.0,))
            self._lift[labels] = (lift + before - given,)
        if not self._lift:
            return given
        return given + self._lift.get(labels, (0.0,))[0]

    def all_at_least(self, labels: Labels, given: Numbers) -> Numbers:
        """Return what to show for the numbers of a histogram."""
        before = self._many.get(labels)
        self._next_many[labels] = given
        lift = self._lift.get(labels)
        if (
            before is not None
            and given != before
            and any(a < b for a, b in zip(given, before, strict=True))
        ):
            # A part left the sum: keep its share. A sum of several fell as one, so each
            # of its numbers is lifted by its own fall.
            lift = self._lift[labels] = tuple(
                (up + max(0.0, old - new))
                for up, old, new in zip(lift or (0.0,) * len(given), before, given, strict=True)
            )
        return given if lift is None else tuple(a + b for a, b in zip(given, lift, strict=True))

    def turn(self, before: float, oldest: float) -> None:
        """End a rendering.

        Args:
            before: When the rendering before this one began: what it showed and this one
                does not was last there then.
            oldest: What was last there before this time is forgotten.
        """
        self._given, self._next = self._kept(self._given, self._next, before, oldest), {}
        self._many, self._next_many = self._kept(self._many, self._next_many, before, oldest), {}

    def _kept(
        self, had: dict[Labels, _Given], now: dict[Labels, _Given], before: float, oldest: float
    ) -> dict[Labels, _Given]:
        """Return what is remembered of a rendering: what it showed, and what may come back."""
        for labels in self._absent.keys() & now.keys():
            del self._absent[labels]
        for labels in had.keys() - now.keys():
            if self._absent.setdefault(labels, before) < oldest:
                del self._absent[labels]
                self._lift.pop(labels, None)
            else:
                now[labels] = had[labels]
        return now
