"""How many series there may be: of one owner on one device, and of all owners of the node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

OwnerLabels: TypeAlias = tuple[str, str, str, str, str]


class SeriesBudget:
    """Counts the series of each owner on each device in one rendering."""

    def __init__(self, per_owner: int) -> None:
        self._per_owner = per_owner
        self._taken: dict[tuple[str, ...], int] = {}
        self.dropped = 0

    def room(self, workload: tuple[str, ...], series: int) -> bool:
        """Take room for so many series; False, and counted, where there is none left."""
        taken = self._taken.get(workload, 0) + series
        if taken > self._per_owner:
            self.dropped += series
            return False
        self._taken[workload] = taken
        return True


class Admission:
    """Which owners of a node have series of their own.

    First come, first served, so that no series flaps between its owner and `other`.
    """

    def __init__(self, pairs: int) -> None:
        """Make an empty one.

        Args:
            pairs: how many pairs of an owner and a device have room.
        """
        self._pairs = max(1, pairs)
        self._order: dict[OwnerLabels, None] = {}

    def admit(self, devices: Mapping[OwnerLabels, int]) -> frozenset[OwnerLabels]:
        """Return the owners that keep their own series.

        Args:
            devices: how many devices each owner has series on, for all owners of the tick.
        """
        self._order = {labels: None for labels in self._order if labels in devices}
        admitted: dict[OwnerLabels, None] = {}
        taken = 0
        for labels in _first(self._order, sorted(devices)):
            if taken + devices[labels] <= self._pairs:
                admitted[labels] = None
                taken += devices[labels]
        self._order = admitted
        return frozenset(admitted)


def _first(known: Iterable[OwnerLabels], every: Iterable[OwnerLabels]) -> Iterable[OwnerLabels]:
    return dict.fromkeys((*known, *every))
