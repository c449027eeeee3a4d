"""Looks at all agents, one after the other: rates are what changed between two of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpugauge.cli.target import Target
from gpugauge.cli.top.rows import Row, interval_ns, rows
from gpugauge.cli.top.sort import ordered
from gpugauge.model.workload import Scope
from gpugauge.remote.fleet import Answer, Fleet
from gpugauge.remote.link import Link
from gpugauge.remote.reading import Reading, read
from gpugauge.units import NS_PER_SECOND

LONGEST_WAIT_SECONDS = 61.0
"""The slowest tick that a setting allows, and a little."""


@dataclass(frozen=True, slots=True)
class Look:
    """What every agent answered, beside what it had answered before."""

    answers: Sequence[Answer[Reading]]
    before: Sequence[Reading | None]
    time_unix_seconds: float

    def rows(self, wanted: Target, workload: str, sort: str, *, ended: bool) -> list[Row]:
        """Return the rows that are wanted, in order."""
        found = [
            row
            for answer, before in zip(self.answers, self.before, strict=True)
            if answer.value is not None
            for row in rows(before, answer.value, ended=ended)
            if _wanted(row, wanted, workload)
        ]
        return ordered(found, sort)

    @property
    def interval_seconds(self) -> float | None:
        """The longest time between the two readings of an agent; None where none has two."""
        passed = [
            interval_ns(before.snapshot, answer.value.snapshot)
            for answer, before in zip(self.answers, self.before, strict=True)
            if answer.value is not None and before is not None
        ]
        known = [one for one in passed if one]
        return max(known) / NS_PER_SECOND if known else None

    @property
    def failed(self) -> bool:
        """Whether an agent did not answer."""
        return any(answer.error is not None for answer in self.answers)

    @property
    def simulated(self) -> bool:
        """Whether a simulated driver's figures are among these."""
        return any(a.value is not None and a.value.snapshot.simulated for a in self.answers)


class Looks:
    """Keeps what each agent said last, and before."""

    def __init__(self, fleet: Fleet, seconds: float) -> None:
        """Take the agents, and the time that each one has."""
        self._fleet = fleet
        self._seconds = seconds
        self._last: dict[str, Reading] = {}
        self._before: dict[str, Reading] = {}
        """By the agent's own name: a node's next agent is another one."""

    def look(self) -> Look:
        """Ask all agents once."""
        answers = self._fleet.each(self._read)
        for answer in answers:
            where, now = answer.link.where, answer.value
            if now is None:
                continue  # what it said before it fell silent still tells a rate after
            last = self._last.get(where)
            if last is not None and _ticked(last, now):
                self._before[where] = last
            self._last[where] = now
        there = [answer.link.where for answer in answers]
        self._last = {where: self._last[where] for where in there if where in self._last}
        self._before = {where: self._before[where] for where in there if where in self._before}
        return Look(answers, [self._before.get(where) for where in there], time.time())

    def wait_seconds(self, wanted: float) -> float:
        """Return how long to wait for a next look: every agent has ticked by then."""
        ticks = [one.snapshot.interval_ns for one in self._last.values()]
        longest = max(ticks, default=0) / NS_PER_SECOND
        return min(LONGEST_WAIT_SECONDS, max(wanted, 1.05 * longest))

    def _read(self, link: Link) -> Reading:
        return read(link, self._seconds)


def _ticked(last: Reading, now: Reading) -> bool:
    return last.snapshot.time_monotonic_ns != now.snapshot.time_monotonic_ns


def _wanted(row: Row, wanted: Target, workload: str) -> bool:
    whose = row.owner
    if wanted.namespace and (whose.scope is not Scope.POD or whose.namespace != wanted.namespace):
        return False
    return (not wanted.pod or whose.pod == wanted.pod) and workload in ("", whose.workload)
