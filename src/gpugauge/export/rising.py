"""Counters that never go back, whatever becomes of the parts they are sums of.

Two owners can share one label set: a StatefulSet's pod and the one before it,
or all that the budget adds up in `other`. When one of them is retired the sum
falls, and Prometheus would take the fall for a restart and count what is left
as new. So what was shown is kept, and later growth is added to it.
"""

from __future__ import annotations

from collections.abc import Callable

Numbers = tuple[float, ...]
Key = tuple[str, tuple[str, ...]]


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
        self._given: dict[Key, Numbers] = {}
        self._lift: dict[Key, Numbers] = {}
        self._seen: dict[Key, float] = {}

    def begin(self) -> None:
        """Begin a rendering."""
        self._now = self._now_seconds()

    def at_least(self, name: str, labels: tuple[str, ...], given: Numbers) -> Numbers:
        """Return what to show for these numbers: never less than the last time."""
        key = (name, labels)
        before = self._given.get(key)
        self._given[key] = given
        self._seen[key] = self._now
        lift = self._lift.get(key)
        if before is not None and any(a < b for a, b in zip(given, before, strict=True)):
            # A part left the sum: keep its share. A sum of several fell as one, so each
            # of its numbers is lifted by its own fall.
            lift = tuple(
                (up + max(0.0, old - new))
                for up, old, new in zip(lift or (0.0,) * len(given), before, given, strict=True)
            )
            self._lift[key] = lift
        return given if lift is None else tuple(a + b for a, b in zip(given, lift, strict=True))

    def end(self) -> None:
        """End a rendering: forget what was absent for too long."""
        oldest = self._now - self._keep_seconds
        for key in [key for key, seen in self._seen.items() if seen < oldest]:
            del self._given[key], self._seen[key]
            self._lift.pop(key, None)
