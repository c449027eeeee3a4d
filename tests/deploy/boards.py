"""The generated dashboards, read as Grafana reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.deploy.promql import ROOT

FOLDER = ROOT / "deploy" / "helm" / "gpugauge" / "dashboards"
VARIABLE = re.compile(r"\$\{(\w+)[^}]*\}|\$([a-zA-Z_]\w*)")


@dataclass(frozen=True)
class Query:
    """One query of a panel or an annotation."""

    board: str
    title: str
    ref: str
    expr: str
    legend: str
    panel: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.board}: {self.title} {self.ref}".strip()


def boards() -> dict[str, dict[str, Any]]:
    """Return every dashboard by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels that are no rows, those in closed rows too."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries(name: str, board: Mapping[str, Any]) -> Iterator[Query]:
    """Yield every query of the panels."""
    for panel in panels(board):
        for target in panel.get("targets", ()):
            legend = target.get("legendFormat", "")
            yield Query(name, panel["title"], target["refId"], target["expr"], legend, panel)


def annotations(name: str, board: Mapping[str, Any]) -> Iterator[Query]:
    """Yield every query of the annotations."""
    for each in board["annotations"].get("list", ()):
        yield Query(name, each["name"], "", each["expr"], each["textFormat"], each)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its variables replaced.

    Raises:
        KeyError: a variable has no value.
    """
    return VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def variables(board: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the definitions of the variables by name."""
    return {each["name"]: each for each in board["templating"]["list"]}


def used(text: str) -> set[str]:
    """Return the variables that a text names."""
    return {found[1] or found[2] for found in VARIABLE.finditer(text)}


def query_of(variable: Mapping[str, Any]) -> str:
    """Return the query of a variable, as it is written."""
    query = variable["query"]
    return str(query["query"] if isinstance(query, dict) else query)


def texts(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
