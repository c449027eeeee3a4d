"""The rule files and their unit tests, read for the tests of the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as grammar
import yaml

from tests.deploy.promql import ROOT, RULES

PROMTOOL = ROOT / ".tools" / "bin" / "promtool"
UNIT_TESTS = Path(__file__).with_name("rules")


@dataclass(frozen=True)
class Alert:
    """One alert, and the group it stands in."""

    name: str
    group: str
    expr: str
    wait: str
    """Its `for`."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass
class Case:
    """One test of a promtool file."""

    name: str
    inputs: frozenset[str]
    """Names of the metrics that it feeds."""
    fires: dict[str, list[int]] = field(default_factory=dict)
    """How many alerts are expected, by alert and moment."""
    queries: dict[str, bool] = field(default_factory=dict)
    """Whether samples are expected, by query; True if at one moment at least."""

    @property
    def healthy(self) -> bool:
        """It says so in its name; anything else is a bad case."""
        return self.name.startswith("healthy: ")


@cache
def groups(name: str) -> list[dict[str, Any]]:
    """Return the groups of one rule file."""
    return list(yaml.safe_load((RULES / f"{name}.yaml").read_text())["groups"])


@cache
def alerts() -> dict[str, Alert]:
    """Return the alerts by name."""
    return {
        rule["alert"]: Alert(
            rule["alert"],
            group["name"],
            rule["expr"],
            rule.get("for", ""),
            rule["labels"],
            rule["annotations"],
        )
        for group in groups("alerts")
        for rule in group["rules"]
    }


@cache
def cases() -> list[Case]:
    """Return every test of every promtool file."""
    return [
        _case(test)
        for path in sorted(UNIT_TESTS.glob("*.yaml"))
        for test in yaml.safe_load(path.read_text())["tests"]
    ]


def _case(test: Mapping[str, Any]) -> Case:
    case = Case(
        test["name"],
        frozenset(each["series"].partition("{")[0] for each in test["input_series"]),
    )
    for each in test.get("alert_rule_test", ()):
        case.fires.setdefault(each["alertname"], []).append(len(each["exp_alerts"]))
    for each in test.get("promql_expr_test", ()):
        some = bool(each["exp_samples"])
        case.queries[each["expr"]] = case.queries.get(each["expr"], False) or some
    return case


def names_in(query: str) -> set[str]:
    """Return the metrics that a query reads."""
    return {each.name for each in _selectors(grammar.parse(query))}


def _selectors(tree: grammar.Expr) -> Iterator[grammar.VectorSelector]:
    match tree:
        case grammar.VectorSelector():
            yield tree
        case grammar.MatrixSelector():
            yield tree.vector_selector
        case grammar.Call():
            for each in tree.args:
                yield from _selectors(each)
        case grammar.BinaryExpr():
            yield from _selectors(tree.lhs)
            yield from _selectors(tree.rhs)
        case grammar.NumberLiteral() | grammar.StringLiteral():
            return
        case _:
            yield from _selectors(tree.expr)
            if isinstance(tree, grammar.AggregateExpr) and tree.param is not None:
                yield from _selectors(tree.param)
