"""What the diagnosis found."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Certainty, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        name="finding",
        kind=Kind.GAUGE,
        labels=(*WORKLOAD, "rule", "severity"),
        help="1 while the diagnosis has this finding open.",
        samples=of.findings,
        certainty=Certainty.ESTIMATE,
        meaning="docs/rules.md has a paragraph for each rule: what it means and what to do.",
        wrong_when="As its rule says.",
    ),
)
