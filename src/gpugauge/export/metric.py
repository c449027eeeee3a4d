"""What a metric is: one row of the tables in `metrics/`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpugauge.export.view import View

PREFIX = "gpugauge_"

OWNER = ("namespace", "pod", "container", "workload", "scope")
"""Labels of what belongs to an owner as a whole."""
WORKLOAD = ("namespace", "pod", "container", "workload", "gpu_uuid", "scope")
"""Labels of what an owner did on one device."""
DEVICE = ("gpu_uuid", "gpu", "model")

BUCKET_INDEXES = (2, 4, 5, 6, 7, 8, 10)
"""The bounds of a model.Histogram that are exported: 16 us to 1.1 s. With +Inf they are
eight; 14 would be half of all series."""
HISTOGRAM_SERIES = len(BUCKET_INDEXES) + 3
"""Series of one histogram: buckets, +Inf, sum and count."""

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram as Prometheus wants it: cumulative counts per bound, the last is +Inf."""

    cumulative: tuple[int, ...]
    sum: float


Value = float | Distribution
Sampler = Callable[[View], Iterable[tuple[Labels, Value]]]


class Kind(StrEnum):
    """The Prometheus type."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Certainty(StrEnum):
    """How far the number can be trusted."""

    EXACT = "exact"
    LOWER_BOUND = "lower bound"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric family."""

    name: str
    """Without the prefix."""
    kind: Kind
    labels: Labels
    help: str
    samples: Sampler
    certainty: Certainty = Certainty.EXACT
    meaning: str
    """The paragraph of docs/metrics.md."""
    wrong_when: str
    """When the number misleads."""
    since: str = "0.1.0"
    option: str = ""
    """The setting of `[series]` that turns it on; "" when it is always on."""

    @property
    def full_name(self) -> str:
        """The name as it is exported."""
        return PREFIX + self.name
