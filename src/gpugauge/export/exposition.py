"""Snapshots as Prometheus text: rendered at most once a snapshot, and only when asked."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gpugauge.export.budget import Admission, SeriesBudget
from gpugauge.export.metric import (
    HISTOGRAM_SERIES,
    WORKLOAD,
    Distribution,
    Kind,
    Labels,
    Metric,
    Value,
)
from gpugauge.export.metrics import METRICS
from gpugauge.export.rising import Rising
from gpugauge.export.samples import BUCKET_BOUNDS
from gpugauge.export.text import TextWriter
from gpugauge.export.view import View, make_view
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import PriceSettings, SeriesSettings

BUCKET_LABELS = (*map(floatToGoString, BUCKET_BOUNDS), "+Inf")
GZIP_LEVEL = 1  # a tenth of the size already; higher levels cost more CPU than they save


_EMPTY = (b"", gzip.compress(b"", mtime=0))


@dataclass(slots=True)
class _Published:
    """A snapshot, and its text once somebody asked for it."""

    snapshot: Snapshot
    findings: Sequence[Finding]
    lacked: Sequence[str]
    at_seconds: float
    plain: bytes | None = None
    packed: bytes | None = None


class Exposition(Collector):
    """The newest snapshot as text, for any number of scrapes."""

    def __init__(
        self,
        settings: SeriesSettings,
        now_seconds: Callable[[], float] = time.monotonic,
        *,
        price: PriceSettings | None = None,
    ) -> None:
        """Make one that has nothing to show yet."""
        self._settings = settings
        self._price = price
        self._now_seconds = now_seconds
        self._lock = threading.Lock()
        self._admission = Admission(int(settings.per_node) // int(settings.per_owner))
        self._rising = Rising(settings.retire_seconds, now_seconds)
        self.registry = CollectorRegistry(auto_describe=False)
        self._writer = TextWriter()
        self._newest: _Published | None = None
        self._started_seconds = now_seconds()
        self.registry.register(self)

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None before the first tick."""
        newest = self._newest
        return newest.snapshot if newest else None

    @property
    def findings(self) -> Sequence[Finding]:
        """What was open when the newest snapshot was published."""
        newest = self._newest
        return newest.findings if newest else ()

    @property
    def age_seconds(self) -> float:
        """Time since the newest snapshot, or since the start."""
        newest = self._newest
        return self._now_seconds() - (newest.at_seconds if newest else self._started_seconds)

    @property
    def lacked(self) -> Sequence[str]:
        """What the diagnosis could not see then."""
        newest = self._newest
        return newest.lacked if newest else ()

    def publish(
        self,
        snapshot: Snapshot,
        findings: Sequence[Finding] = (),
        lacked: Sequence[str] = (),
    ) -> None:
        """Make this the newest snapshot. Costs nothing until somebody asks.

        Takes no lock: the tick never waits for a rendering.
        """
        self._newest = _Published(snapshot, findings, lacked, self._now_seconds())

    def text(self, compressed: bool = False) -> bytes:
        """Return the exposition; empty before the first tick."""
        with self._lock:
            newest = self._newest
            if newest is None:
                return _EMPTY[compressed]
            if newest.plain is None:
                newest.plain = self._writer.write(self.registry.collect())
            if not compressed:
                return newest.plain
            if newest.packed is None:
                newest.packed = gzip.compress(newest.plain, GZIP_LEVEL, mtime=0)
            return newest.packed

    def describe(self) -> list[Family]:
        """Return nothing: names are checked against the table by the tests."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yield every family that has samples; called by prometheus_client."""
        newest = self._newest
        if newest is None:
            return
        budget = SeriesBudget(self._settings.per_owner)
        view = make_view(newest.snapshot, self._admission, budget, newest.findings, self._price)
        self._rising.begin()
        writer = _Writer(view, self._rising)
        for metric in METRICS:
            if not metric.option or getattr(self._settings, metric.option):
                family = writer.family(metric)
                if family.samples:
                    yield family
        self._rising.end()


class _Writer:
    """Writes families, and holds each owner and device to its budget of series."""

    def __init__(self, view: View, rising: Rising) -> None:
        self._view = view
        self._rising = rising
        self._more: Labels = ("true",) if view.snapshot.simulated else ()
        self._more_names: Labels = ("simulated",) if view.snapshot.simulated else ()

    def family(self, metric: Metric) -> Family:
        """Return the family of one row of the table, with its samples."""
        names = (*metric.labels, *self._more_names)
        counted = metric.labels[: len(WORKLOAD)] == WORKLOAD
        family = _FAMILIES[metric.kind](metric.full_name, metric.help, labels=names)
        seen: set[Labels] = set()
        for labels, value in metric.samples(self._view):
            if labels in seen:  # two devices that NVML lost are both `unknown`
                continue
            seen.add(labels)
            size = HISTOGRAM_SERIES if isinstance(value, Distribution) else 1
            if not counted or self._view.budget.room(labels[: len(WORKLOAD)], size):
                self._add(metric, family, labels, value)
        return family

    def _add(self, metric: Metric, family: Family, labels: Labels, value: Value) -> None:
        if isinstance(value, Distribution):
            numbers = self._rising.at_least(
                metric.name, labels, (*map(float, value.cumulative), value.sum)
            )
            buckets = list(zip(BUCKET_LABELS, numbers[:-1], strict=True))
            family.add_metric((*labels, *self._more), buckets, numbers[-1])  # type: ignore[attr-defined]
            return
        if metric.kind is Kind.COUNTER:
            (value,) = self._rising.at_least(metric.name, labels, (value,))
        family.add_metric((*labels, *self._more), value)  # type: ignore[attr-defined]


_FAMILIES: dict[Kind, Callable[..., Family]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}
