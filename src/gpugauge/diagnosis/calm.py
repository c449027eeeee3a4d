"""Whether a workload is as it was when no rule had anything to say.

Rules are functions of a window's figures. While these stay within a few percent of those
at the last full look, a look would say the same, and is left out for some seconds: that is
what makes the diagnosis cheap on a node where nothing is wrong.
"""

from __future__ import annotations

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.figures import Figures
from gpugauge.diagnosis.subject import Subject

LOOK_SECONDS = 15.0
"""A full look at least this often: what drifts slowly is seen."""
SECOND = 1_000_000_000
SAME_RATIO = 0.05
SAME_SHARE = 0.03
LONG_CALL_SECONDS = 5.0
_RATES = (
    "work_per_second",
    "syncs_per_work",
    "dtoh_copies_per_work",
    "htod_copies_per_work",
    "dtoh_bytes_per_work",
    "htod_bytes_per_work",
    "threads_per_launch",
    "issue_seconds",
    "allocations_per_second",
)
_SHARES = (
    "processes",
    "blocked_ratio",
    "blocked_copy_ratio",
    "allocation_ratio",
    "errors_per_second",
    "idle_ratio",
    "throttled_ratio",
    "pressure_cpu_ratio",
    "pressure_io_ratio",
    "pressure_memory_ratio",
    "quota_cores",
    "unobserved_ratio",
    "others_busy_ratio",
)


def is_calm(subject: Subject, now_ns: int) -> bool:
    """Return whether a full look can be left out now."""
    now, looked = subject.now, subject.looked
    return (
        now is not None
        and looked is not None
        and now_ns - subject.looked_ns < LOOK_SECONDS * SECOND
        and not subject.error_events
        and subject.oldest_open < LONG_CALL_SECONDS
        and now.work_per_second > 0
        and subject.totals[c.HELD] == subject.looked_held
        and _alike(now, looked)
    )


def _alike(now: Figures, looked: Figures) -> bool:
    for name in _RATES:
        a, b = getattr(now, name), getattr(looked, name)
        if a != b and (a is None or b is None or abs(a - b) > SAME_RATIO * b):
            return False
    for name in _SHARES:
        a, b = getattr(now, name), getattr(looked, name)
        if a != b and (a is None or b is None or abs(a - b) > SAME_SHARE):
            return False
    return True
