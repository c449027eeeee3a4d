"""Tables: one row a set of labels, one column a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import table as build_table
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import SOURCE, Panel, about, instant


@dataclass(frozen=True)
class Column:
    """One query of a table; it must give exactly the labels that are the table's keys."""

    title: str
    expr: str
    unit: Unit = Unit.COUNT
    shown: bool = True
    """False for a value that is always 1."""


def table(
    title: str,
    text: str,
    keys: Sequence[str],
    columns: Sequence[Column],
    *,
    width: int = 24,
    height: int = 8,
    wrong: str = "",
    empty: str = "Nothing was seen in this time.",
    links: Mapping[str, Mapping[str, str]] | None = None,
    colors: Mapping[str, Mapping[str, str]] | None = None,
    sort: str = "",
) -> Panel:
    """Return a table of now.

    Args:
        title: What is shown.
        text: What it means.
        keys: Labels, one column each, in this order.
        columns: Values beside them.
        width: In columns of the grid.
        height: In rows of the grid.
        wrong: When it misleads, if it is not what the first metric's row says.
        empty: What the panel says where there is nothing.
        links: Where a key leads: by key, URLs by title.
        colors: Colours of texts: by key, by value.
        sort: The column to sort by, largest first.
    """
    panel = (
        build_table.Panel()
        .title(title)
        .description(about(text, [each.expr for each in columns], wrong))
        .datasource(SOURCE)
        .no_value(empty)
        .transformations([dashboard.DataTransformerConfig(id_val="merge", options={})])
    )
    names = _value_names(columns)
    for ref, column in names.items():
        if column.shown:
            properties = [dashboard.DynamicConfigValue("unit", column.unit)]
            panel.override_by_name(column.title, properties)
        if len(ref) > len("Value"):
            panel.with_target(instant(ref[-1], column.expr))
    hidden = {"Time": True} | {ref: True for ref, each in names.items() if not each.shown}
    order = [*keys, *names]
    panel.with_transformation(
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": hidden,
                "indexByName": {name: index for index, name in enumerate(order)},
                "renameByName": {ref: each.title for ref, each in names.items() if each.shown},
            },
        )
    )
    for key, urls in (links or {}).items():
        shown = [{"title": name, "url": url} for name, url in urls.items()]
        panel.override_by_name(key, [dashboard.DynamicConfigValue("links", shown)])
    for key, words in (colors or {}).items():
        options = {
            word: {"color": color, "index": index}
            for index, (word, color) in enumerate(words.items())
        }
        properties = [
            dashboard.DynamicConfigValue("mappings", [{"type": "value", "options": options}]),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ]
        panel.override_by_name(key, properties)
    if sort:
        panel.sort_by([build_common.TableSortByFieldState().display_name(sort).desc(True)])
    return Panel(panel, width, height)


def _value_names(columns: Sequence[Column]) -> dict[str, Column]:
    """Return how Grafana names the value of each query, in a row that was merged.

    A lone query's is also `Value`. With several queries that name stays as it is: which of
    them it came from is not known.
    """
    names = {f"Value #{chr(ord('A') + index)}": each for index, each in enumerate(columns)}
    return names | ({"Value": columns[0]} if len(columns) == 1 else {})
