"""From rows of panels to a dashboard: places, ids, links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.parts.events import Annotation, built
from deploy.grafana.parts.names import TAG, TITLES, Board
from deploy.grafana.parts.panels import Panel

COLUMNS = 24


@dataclass(frozen=True)
class Row:
    """Panels under one heading, from left to right; a new line where there is no room."""

    title: str
    panels: Sequence[Panel]
    open: bool = True
    """False: its panels ask nothing until somebody opens the row."""


@dataclass(frozen=True)
class Page:
    """One dashboard."""

    board: Board
    description: str
    variables: Sequence[Any]
    rows: Sequence[Row]
    annotations: Sequence[Annotation] = ()

    def build(self) -> dashboard.Dashboard:
        """Return it as Grafana's."""
        made = (
            build.Dashboard(TITLES[self.board])
            .uid(self.board)
            .description(self.description)
            .tags([TAG])
            .time("now-1h", "now")
            .refresh("30s")
            .timezone("browser")
            .editable()
            .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
            .variables(list(self.variables))
        )
        for each in self.annotations:
            made.annotation(built(each))
        for board in Board:
            if board is not self.board:
                link = build.DashboardLink(TITLES[board].removeprefix("gpugauge / "))
                link.type(dashboard.DashboardLinkType.LINK).url(f"/d/{board}")
                made.link(link.include_vars(True).keep_time(True).icon("dashboard"))
        whole = made.build()
        whole.panels = list(_placed(self.rows))
        return whole


def _placed(rows: Iterable[Row]) -> Iterable[dashboard.Panel | dashboard.RowPanel]:
    number, top = 0, 0
    for row in rows:
        number += 1
        heading = dashboard.RowPanel(title=row.title, collapsed=not row.open, id_val=number)
        heading.grid_pos = dashboard.GridPos(x=0, y=top, w=COLUMNS, h=1)
        inside, height = _lines(row.panels, top + 1)
        for each in inside:
            number += 1
            each.id_val = number
        heading.panels = [] if row.open else inside
        yield heading
        if row.open:
            yield from inside
        # A closed row takes one line; its panels have their places for when it is opened.
        top += 1 + (height if row.open else 0)


def _lines(panels: Iterable[Panel], top: int) -> tuple[list[dashboard.Panel], int]:
    """Return panels at their places, and the height of all."""
    placed, left, first, lowest = [], 0, top, top
    for panel in panels:
        if left + panel.width > COLUMNS:
            left, top = 0, lowest
        built_panel = panel.builder.build()
        built_panel.grid_pos = dashboard.GridPos(x=left, y=top, w=panel.width, h=panel.height)
        placed.append(built_panel)
        left += panel.width
        lowest = max(lowest, top + panel.height)
    return placed, lowest - first
