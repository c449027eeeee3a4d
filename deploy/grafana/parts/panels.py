"""Panels of one look: lines, numbers, tables, texts, and states over time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import text as build_text
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.queries import metric
from gpugauge.export.metric import PREFIX

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
METRIC_NAME = re.compile(rf"[\w:]*\b{PREFIX}[\w:]+|\bDCGM_\w+|\bALERTS\b")
LEGEND_WIDTH = 300
AXIS_WIDTH = 90
"""Fixed, so that panels under each other have one time axis."""


@dataclass(frozen=True)
class Query:
    """One query and how its lines are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel and its size on the grid of 24 columns."""

    builder: Any
    width: int
    height: int


def about(text: str, queries: Sequence[str], wrong: str = "") -> str:
    """Return a panel's description: meaning, when it misleads, and where to read on.

    Args:
        text: What it means.
        queries: Its queries; the metrics in them are named.
        wrong: When it misleads; "" takes what the metric table says of the first metric.
    """
    named = [*dict.fromkeys(re.findall(METRIC_NAME, " ".join(queries)))]
    wrong = wrong or metric(named[0].removeprefix(PREFIX)).wrong_when
    metrics = ", ".join(f"`{each}`" for each in named)
    return f"{text}\n\nWhen it misleads: {wrong}\n\nMetrics: {metrics}."


def lines(
    title: str,
    text: str,
    queries: Sequence[Query],
    unit: Unit,
    *,
    width: int = 12,
    height: int = 8,
    wrong: str = "",
    empty: str = "Nothing was seen in this time.",
    axis: str = "",
    colors: Mapping[str, str] | None = None,
    stacked: bool = False,
    full: bool = False,
    links: Mapping[str, str] | None = None,
) -> Panel:
    """Return lines over time.

    Args:
        title: What is shown.
        text: What it means; the metric table adds when it misleads.
        queries: The queries.
        unit: Of the values.
        width: In columns of the grid.
        height: In rows of the grid.
        wrong: When it misleads, if it is not what the first metric's row says.
        empty: What the panel says where there is nothing, and why there may be nothing.
        axis: What the axis counts.
        colors: Fixed colours by the name of the line.
        stacked: The lines add up to something.
        full: They add up to 1.
        links: Where a line leads, by title.
    """
    legend = build_common.VizLegendOptions().show_legend(True).calcs(["mean", "lastNotNull"])
    legend = legend.display_mode(common.LegendDisplayMode.TABLE).width(LEGEND_WIDTH)
    below = common.LegendPlacement.RIGHT if width == 24 else common.LegendPlacement.BOTTOM
    tooltip = build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    panel = (
        timeseries.Panel()
        .title(title)
        .description(about(text, [each.expr for each in queries], wrong))
        .datasource(SOURCE)
        .unit(unit)
        .no_value(empty)
        .line_width(1)
        .fill_opacity(35 if stacked else 8)
        .show_points(common.VisibilityMode.AUTO)
        .span_nulls(False)
        .axis_width(AXIS_WIDTH)
        .axis_label(axis)
        .axis_soft_min(0)
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
        .legend(legend.placement(below))
        .tooltip(tooltip.sort(common.SortOrder.DESCENDING))
    )
    if stacked:
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if full:
        panel.max(1).min(0)
    for name, color in (colors or {}).items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel.override_by_name(name, [dashboard.DynamicConfigValue("color", fixed)])
    if links:
        panel.data_links([_link(name, url) for name, url in links.items()])
    for ref, each in zip(_refs(), queries, strict=False):
        target = prometheus.Dataquery().ref_id(ref).expr(each.expr).legend_format(each.legend)
        panel.with_target(target.range().datasource(SOURCE))
    return Panel(panel, width, height)


def number(
    title: str,
    text: str,
    query: str,
    unit: Unit,
    *,
    width: int = 3,
    height: int = 4,
    wrong: str = "",
    empty: str = "unknown",
    steps: Sequence[tuple[float | None, str]] = ((None, "text"),),
    decimals: int | None = None,
    legend: str = "",
) -> Panel:
    """Return one number and its recent course; `steps` are colours from a value on.

    With a legend there is one number a line, each with its name.
    """
    thresholds = [dashboard.Threshold(value=value, color=color) for value, color in steps]
    panel = (
        stat.Panel()
        .title(title)
        .description(about(text, [query], wrong))
        .datasource(SOURCE)
        .unit(unit)
        .no_value(empty)
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(
            build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(thresholds)
        )
    )
    if decimals is not None:
        panel.decimals(decimals)
    if legend:
        panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME)
    target = prometheus.Dataquery().ref_id("A").expr(query).legend_format(legend).range()
    return Panel(panel.with_target(target.datasource(SOURCE)), width, height)


def timeline(
    title: str,
    text: str,
    query: Query,
    *,
    width: int = 24,
    height: int = 6,
    wrong: str = "",
    empty: str,
    shown: Mapping[str, tuple[str, str]],
) -> Panel:
    """Return states over time; `shown` is text and colour by value."""
    results = {
        value: dashboard.ValueMappingResult(text=name, color=color, index=index)
        for index, (value, (name, color)) in enumerate(shown.items())
    }
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(about(text, [query.expr], wrong))
        .datasource(SOURCE)
        .no_value(empty)
        .show_value(common.VisibilityMode.AUTO)
        .mappings([dashboard.ValueMap(options=results)])
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .legend(
            build_common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.RIGHT)
            .width(LEGEND_WIDTH)
        )
    )
    target = prometheus.Dataquery().ref_id("A").expr(query.expr).legend_format(query.legend)
    return Panel(panel.with_target(target.range().datasource(SOURCE)), width, height)


def prose(title: str, content: str, *, width: int = 24, height: int = 6) -> Panel:
    """Return a text in Markdown."""
    panel = build_text.Panel().title(title).mode(TextMode.MARKDOWN).content(content)
    return Panel(panel, width, height)


def instant(ref: str, expr: str) -> prometheus.Dataquery:
    """Return a query for now, as rows of a table."""
    target = prometheus.Dataquery().ref_id(ref).expr(expr).instant()
    return target.format(PromQueryFormat.TABLE).datasource(SOURCE)


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).url(url)


def _refs() -> Sequence[str]:
    return [chr(ord("A") + index) for index in range(26)]
