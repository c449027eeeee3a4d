"""Totals by owner and device that never go back.

A process adds what it gained since it was last added. So nothing is taken from
a series when the process ends, or when its owner becomes known late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpugauge.model.workload import Owner
from gpugauge.state.lanes import Lanes
from gpugauge.state.tracked import Errors, Tracked, TrackedPlace

OwnerKey = tuple[str, str, str, str, str]


def owner_key(owner: Owner) -> OwnerKey:
    """Return what tells one owner's series from another's."""
    return (owner.scope.value, owner.namespace, owner.pod, owner.container, owner.workload)


@dataclass(slots=True)
class SeriesTotal:
    """Totals of one owner on one device."""

    owner: Owner
    gpu_uuid: str
    wide: int = 0
    lanes: tuple[int, ...] = ()
    queue_ns: int = 0
    idle_ns: int | None = None
    errors: Errors = field(default_factory=dict)
    last_alive_ns: int = 0
    _lanes_of: int = -1

    def values(self, lanes: Lanes) -> tuple[int, ...]:
        """Return the lanes, converted again only when they changed."""
        if self._lanes_of != self.wide:
            self.lanes, self._lanes_of = lanes.values(self.wide), self.wide
        return self.lanes


@dataclass(slots=True)
class TimeTotal:
    """The time split of one owner: observed, host waits, GPU waits, overlapped, unobserved."""

    owner: Owner
    parts_ns: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    last_alive_ns: int = 0


class Ledger:
    """All totals."""

    def __init__(self, retire_ns: int) -> None:
        self._retire_ns = retire_ns
        self.series: dict[tuple[OwnerKey, str], SeriesTotal] = {}
        self.times: dict[OwnerKey, TimeTotal] = {}

    def add(self, process: Tracked, now_ns: int) -> None:
        """Add what a process gained since it was last added."""
        key = owner_key(process.owner)
        for place in process.places.values():
            self._add_place(key, process.owner, place, now_ns)
        split = process.split
        parts = (
            split.observed_ns,
            split.host_waits_ns,
            split.gpu_waits_ns,
            split.overlapped_ns,
            split.unobserved_ns,
        )
        total = self.times.setdefault(key, TimeTotal(process.owner))
        total.owner, total.last_alive_ns = process.owner, now_ns
        a, b, c, d, e = (
            had + now - was
            for had, now, was in zip(total.parts_ns, parts, process.split_published, strict=True)
        )
        total.parts_ns = (a, b, c, d, e)
        process.split_published = parts

    def retire(self, now_ns: int) -> None:
        """Drop owners of whom nothing lived for the retirement time."""
        limit = now_ns - self._retire_ns
        for name in [n for n, total in self.series.items() if total.last_alive_ns < limit]:
            del self.series[name]
        for key in [k for k, time in self.times.items() if time.last_alive_ns < limit]:
            del self.times[key]

    def _add_place(self, key: OwnerKey, owner: Owner, place: TrackedPlace, now_ns: int) -> None:
        name = (key, place.gpu_uuid)
        total = self.series.get(name)
        if total is None:
            total = self.series[name] = SeriesTotal(owner, place.gpu_uuid)
        total.owner, total.last_alive_ns = owner, now_ns
        done = place.published
        if place.wide != done.wide:
            total.wide += place.wide - done.wide
            done.wide = place.wide
        total.queue_ns += place.issue.queue_ns - done.queue_ns
        done.queue_ns = place.issue.queue_ns
        if place.idle_ns is not None:
            total.idle_ns = (total.idle_ns or 0) + place.idle_ns - done.idle_ns
            done.idle_ns = place.idle_ns
        for code, count in place.errors.items():
            gained = count - done.errors.get(code, 0)
            if gained > 0:
                total.errors[code] = total.errors.get(code, 0) + gained
                done.errors[code] = count
