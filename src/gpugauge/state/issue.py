"""The learned cost of issuing one launch, and time in the launch queue.

A launch costs 3.5-6 us to issue; when 1,024 are outstanding it waits for one
to finish. What a deep launch takes beyond the issue cost is time in the queue.
The issue cost is the trimmed mean of fresh launches, those at most 255
submissions after a known drain. A fixed threshold reads zero on a GPU that is
saturated with short work; subtracting a median call by call has a bias of
.04-.1 where the host is the limit (docs/validation.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_ISSUE_NS = 10_000
"""Used until enough fresh launches are known (see ISSUE_DEFAULT_NS of count.bpf.h)."""
ENOUGH = 100
TRIM = 0.1
"""The slowest tenth of fresh launches is left out: page faults, preemption, first uses."""
WINDOW = 4_000
"""Older fresh launches are forgotten by halves, so that a slower host shows."""


def trimmed_mean_ns(counts: tuple[float, ...], sums_ns: tuple[float, ...]) -> float | None:
    """Return the mean duration without the slowest tenth, or None below ENOUGH launches.

    Within the bucket where the cut falls, its mean stands for the part that is kept.
    """
    total = sum(counts)
    if total < ENOUGH:
        return None
    keep = total * (1 - TRIM)
    kept = kept_ns = 0.0
    for count, sum_ns in zip(counts, sums_ns, strict=True):
        if not count:
            continue
        part = min(count, keep - kept)
        if part <= 0:
            break
        kept += part
        kept_ns += sum_ns * part / count
    return kept_ns / kept


@dataclass(slots=True)
class IssueCost:
    """What one process's launches cost, from cumulative counts of fresh launches."""

    issue_ns: float | None = None
    queue_ns: int = 0
    """Time in the launch queue so far; never falls."""
    _seen: tuple[int, ...] = ()
    _seen_ns: tuple[int, ...] = ()
    _recent: tuple[float, ...] = ()
    _recent_ns: tuple[float, ...] = ()
    _deep: tuple[int, int] = field(default=(0, 0))

    def update(
        self, counts: tuple[int, ...], sums_ns: tuple[int, ...], deep: tuple[int, int]
    ) -> None:
        """Take in the counters of one tick, all cumulative."""
        if counts != self._seen:
            before, before_ns = (
                self._seen or (0,) * len(counts),
                self._seen_ns or (0,) * len(counts),
            )
            recent = self._recent or (0.0,) * len(counts)
            recent_ns = self._recent_ns or (0.0,) * len(counts)
            keep = 1.0 if sum(recent) < WINDOW else 0.5
            self._recent = tuple(
                r * keep + now - was for r, now, was in zip(recent, counts, before, strict=True)
            )
            self._recent_ns = tuple(
                r * keep + now - was
                for r, now, was in zip(recent_ns, sums_ns, before_ns, strict=True)
            )
            self._seen, self._seen_ns = counts, sums_ns
            learned = trimmed_mean_ns(self._recent, self._recent_ns)
            if learned is not None:
                self.issue_ns = learned
        calls, duration_ns = deep[0] - self._deep[0], deep[1] - self._deep[1]
        if calls:
            self._deep = deep
            cost_ns = self.issue_ns if self.issue_ns is not None else DEFAULT_ISSUE_NS
            self.queue_ns += max(0, round(duration_ns - calls * cost_ns))
