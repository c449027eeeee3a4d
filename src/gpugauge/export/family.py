"""One row of the metric table as text: its samples, within the budget of series, never back."""

from __future__ import annotations

from gpugauge.export.metric import (
    HISTOGRAM_SERIES,
    PREFIX,
    WORKLOAD,
    Distribution,
    Kind,
    Labels,
    Metric,
)
from gpugauge.export.rising import Rising, RisingFamily
from gpugauge.export.samples import BUCKET_BOUNDS
from gpugauge.export.text import LabelTexts, header, number
from gpugauge.export.view import View

BUCKET_LABELS = (*map(number, BUCKET_BOUNDS), "+Inf")
SIMULATED: Labels = ("simulated",)


class FamilyWriter:
    """Writes families, and holds each owner and device to its budget of series."""

    def __init__(self, rising: Rising) -> None:
        self._rising = rising
        self._texts: dict[Labels, LabelTexts] = {}
        self._headers: dict[str, str] = {}

    def write(self, metric: Metric, view: View) -> str:
        """Return the text of one row of the table; nothing where it has no samples."""
        more: Labels = ("true",) if view.snapshot.simulated else ()
        names = (*metric.labels, *SIMULATED[: len(more)])
        texts, room = self._label_texts(names), view.budget.room
        counted = metric.labels[: len(WORKLOAD)] == WORKLOAD
        rising = self._rising.family(metric.name)
        name = PREFIX + metric.name
        lines: list[str] = []
        seen: set[Labels] = set()
        for labels, value in metric.samples(view):
            if labels in seen:  # two devices that NVML lost are both `unknown`
                continue
            seen.add(labels)
            if isinstance(value, Distribution):
                if not counted or room(labels[: len(WORKLOAD)], HISTOGRAM_SERIES):
                    lines += self._histogram(name, names, rising, (labels, more), value)
                continue
            if counted and not room(labels[: len(WORKLOAD)], 1):
                continue
            shown = rising.at_least(labels, value) if metric.kind is Kind.COUNTER else value
            lines.append(f"{name}{texts(labels + more)} {number(shown)}\n")
        return self._header(metric) + "".join(lines) if lines else ""

    def _histogram(
        self,
        name: str,
        names: Labels,
        rising: RisingFamily,
        labels: tuple[Labels, Labels],
        value: Distribution,
    ) -> list[str]:
        numbers = rising.all_at_least(labels[0], (*value.cumulative, value.sum))
        whole = labels[0] + labels[1]
        texts = self._label_texts((*names, "le"))
        lines = [
            f"{name}_bucket{texts((*whole, bound))} {number(count)}\n"
            for bound, count in zip(BUCKET_LABELS, numbers[:-1], strict=True)
        ]
        text = self._label_texts(names)(whole)
        lines.append(f"{name}_count{text} {number(numbers[-2])}\n")
        lines.append(f"{name}_sum{text} {number(numbers[-1])}\n")
        return lines

    def _label_texts(self, names: Labels) -> LabelTexts:
        found = self._texts.get(names)
        if found is None:
            found = self._texts[names] = LabelTexts(names)
        return found

    def _header(self, metric: Metric) -> str:
        found = self._headers.get(metric.name)
        if found is None:
            found = self._headers[metric.name] = header(metric)
        return found
