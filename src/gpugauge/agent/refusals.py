"""Who was refused rows of the BPF maps, by name: a total alone says nothing about whose."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from gpugauge.model.abi import Loss
from gpugauge.model.workload import Owner

LOG = logging.getLogger(__name__)


class Refusals:
    """Tells of cgroups that want more than their share, when they do."""

    def __init__(self, refused: Callable[[], Mapping[int, Mapping[str, int]]]) -> None:
        """Take what tells the refused updates by cgroup; it is asked only when some were."""
        self._refused = refused
        self._seen = 0
        self._told: dict[int, int] = {}

    def look(self, losses: Mapping[Loss, int], owners: Callable[[], Mapping[int, Owner]]) -> None:
        """Log who was refused since the last look.

        Args:
            losses: All that was lost, from the snapshot.
            owners: Gives those of the cgroups of live processes; asked only when needed.
        """
        lost = losses.get(Loss.QUOTA, 0)
        if lost == self._seen:
            return
        self._seen = lost
        found = {
            cgroup: {kind: count for kind, count in row.items() if kind != "ring"}
            for cgroup, row in self._refused().items()
        }
        sums = {cgroup: sum(row.values()) for cgroup, row in found.items()}
        names = owners()
        for cgroup, total in sums.items():
            if total > self._told.get(cgroup, 0):
                kinds = ", ".join(f"{count} {kind}" for kind, count in found[cgroup].items())
                LOG.warning(
                    "%s wants more than its share of the BPF maps: refused so far: %s",
                    _name(cgroup, names.get(cgroup)),
                    kinds,
                )
        self._told = sums


def _name(cgroup: int, owner: Owner | None) -> str:
    if owner is None or not owner.pod:
        return f"cgroup {cgroup}"
    return f"{owner.namespace}/{owner.pod}"
