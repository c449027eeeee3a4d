"""Errors of driver calls."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        name="errors_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "op", "code"),
        help="Failed driver calls, by operation and CUresult.",
        samples=of.workload(of.errors),
        meaning="2 is out of memory, 700 an illegal address, 719 a failed launch. Code `other` "
        "holds codes outside CUresult, and what is beyond the eight most frequent.",
        wrong_when="Functions without a return probe have no errors. Errors of asynchronous work "
        "appear in a later call.",
    ),
)
