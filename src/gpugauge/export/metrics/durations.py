"""How long single calls blocked: last of a workload, for it takes ten series a cause."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        name="blocked_duration_seconds",
        kind=Kind.HISTOGRAM,
        labels=(*WORKLOAD, "cause"),
        help="Duration of single blocking calls, by cause.",
        samples=of.workload(of.durations),
        meaning="Many short waits and few long ones have the same sum and different remedies. "
        "Eight buckets, from 16 us to 1.1 s, each four to sixteen times the one before; a "
        "cause appears once it has occurred.",
        wrong_when="Quantiles are no finer than the buckets.",
    ),
)
