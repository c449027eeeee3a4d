"""What is usual for a workload, learned phase by phase.

A workload has phases (training, evaluation, a checkpoint, a quiet night), and a phase
that was seen before is no incident. Windows that look alike form a phase; a phase of
enough windows can be compared with. Pods of one workload share what is learned, so a
new pod is compared with the ones before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import quantiles

from gpugauge.diagnosis.figures import Figures, medians

PHASES = 8
"""Kept a workload; the one not seen for longest goes first."""
WINDOWS = 60
"""Kept a phase: the last ten minutes of it, and what is usual may drift slowly."""
OFTEN, SELDOM = 12, 5
"""Medians are made anew with each of the first windows, later with every fifth."""
SAME_PHASE_RATIO = 1.35
"""Figures of one phase differ by at most this factor."""
_SHAPE = (
    "syncs_per_work",
    "dtoh_bytes_per_work",
    "htod_bytes_per_work",
    "threads_per_launch",
    "work_per_second",
    "processes",
)


@dataclass(slots=True)
class Phase:
    """Windows that look alike."""

    windows: deque[Figures] = field(default_factory=lambda: deque(maxlen=WINDOWS))
    usual: Figures = field(init=False)
    """Medians."""
    work_low: float = 0.0
    """Work per second that nine of ten windows reach."""
    others_high: float = 0.0
    """Others' busy share that nine of ten windows stay below."""
    added: int = 0
    seen: int = 0
    """Number of the last window that belonged to it."""

    def add(self, window: Figures) -> None:
        """Learn a window."""
        self.windows.append(window)
        self.added += 1
        if len(self.windows) > OFTEN and self.added % SELDOM:
            return  # one more of many does not move a median
        self.usual = medians(list(self.windows))
        self.work_low = _quantile([w.work_per_second for w in self.windows], 0)
        self.others_high = _quantile([w.others_busy_ratio for w in self.windows], -1)

    @property
    def steady(self) -> bool:
        """Its rate of work hardly varies."""
        return self.work_low >= 0.8 * self.usual.work_per_second


@dataclass(slots=True)
class Baseline:
    """What is usual for one workload on one kind of device."""

    phases: list[Phase] = field(default_factory=list)
    learned: int = 0
    """Windows learned so far."""
    quiet: float = 0.0
    """Part of the windows without any work, of late: a workload that bursts has many."""
    longest_wait_seconds: float = 0.0
    """The oldest open call that came back."""

    def learn(self, window: Figures) -> None:
        """Add a window to its phase, or begin a new one."""
        self.learned += 1
        self.quiet += ((window.work_per_second == 0) - self.quiet) / min(self.learned, 100)
        if window.work_per_second == 0:
            return
        best = min(self.phases, key=lambda phase: _distance(phase.usual, window), default=None)
        if best is None or _distance(best.usual, window) > SAME_PHASE_RATIO:
            if len(self.phases) >= PHASES:
                self.phases.remove(min(self.phases, key=lambda phase: phase.seen))
            best = Phase()
            self.phases.append(best)
        best.seen = self.learned
        best.add(window)

    def known(self, at_least: int) -> list[Phase]:
        """Return the phases of enough windows."""
        return [phase for phase in self.phases if len(phase.windows) >= at_least]

    def is_usual(self, window: Figures, at_least: int) -> bool:
        """Whether the window looks like a phase that is known."""
        return any(_distance(p.usual, window) <= SAME_PHASE_RATIO for p in self.known(at_least))

    def like(self, window: Figures, at_least: int, factors: dict[str, float]) -> Phase | None:
        """Return the known phase that does the same work, the nearest one.

        Args:
            window: now.
            at_least: windows a phase must have.
            factors: how far these figures may differ; others may differ at will, since
                they are what the incident changes.
        """
        same = [
            phase
            for phase in self.known(at_least)
            if all(
                _factor(getattr(phase.usual, name), getattr(window, name), name) <= most
                for name, most in factors.items()
            )
        ]
        # A workload that slowed down is compared with its fastest phase of the same work
        # only if it never had a slower one that looks like now.
        return min(same, key=lambda phase: _distance(phase.usual, window), default=None)


_NOTHING = {
    "syncs_per_work": 2e-4,
    "dtoh_bytes_per_work": 64.0,
    "htod_bytes_per_work": 64.0,
    "threads_per_launch": 1.0,
    "work_per_second": 0.2,
    "processes": 0.01,
}
"""Below these, figures are as good as zero: two small numbers do not differ by a factor."""


def _factor(a: float | None, b: float | None, name: str) -> float:
    if a is None or b is None:
        return 1.0  # not known: no ground to tell them apart
    least = _NOTHING.get(name, 0.0)
    low, high = sorted((max(a, least), max(b, least)))
    return high / low if low else 1.0


def _distance(usual: Figures, window: Figures) -> float:
    return max(_factor(getattr(usual, name), getattr(window, name), name) for name in _SHAPE)


def _quantile(values: list[float], which: int) -> float:
    return quantiles(values, n=10, method="inclusive")[which] if len(values) > 1 else values[0]
