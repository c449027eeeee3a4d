"""What a query gives: the labels of its lines and the dimension of their values.

A small type checker over Prometheus's own grammar. It knows the metric table, the recording rules,
and a few metrics of others, and refuses names and labels that nobody has, rates of gauges, counters
without a rate, sums of unlike things, and matching by labels that one side lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import promql_parser as grammar
import yaml

from gpugauge.export.metric import PREFIX, Kind
from gpugauge.export.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "helm" / "gpugauge" / "rules"
SCRAPED = frozenset({"cluster", "job", "instance"})

Dimension = tuple[tuple[str, int], ...]
"""Powers by base: seconds `s`, bytes `B`, money, and those of dcgm-exporter. () is a number."""
NUMBER: Dimension = ()
ANY: Dimension = (("any", 1),)
"""Zero: it goes with everything."""

KSM = frozenset({"namespace", "pod", "container", "uid"}) | SCRAPED
DCGM = frozenset({"gpu", "UUID", "device", "modelName", "Hostname", "hostname"}) | SCRAPED
FOREIGN: dict[str, tuple[frozenset[str], Dimension]] = {
    "up": (SCRAPED, NUMBER),
    "ALERTS": (
        SCRAPED | {"alertname", "alertstate", "severity", "node", "namespace", "workload", "pod"},
        NUMBER,
    ),
    "kube_node_status_capacity": (SCRAPED | {"node", "resource", "unit"}, NUMBER),
    "kube_pod_container_state_started": (KSM, (("s", 1),)),
    "kube_pod_container_info": (KSM | {"image", "image_id", "container_id"}, NUMBER),
    "DCGM_FI_DEV_GPU_UTIL": (DCGM, (("%", 1),)),
    "DCGM_FI_DEV_POWER_USAGE": (DCGM, (("W", 1),)),
    "DCGM_FI_DEV_GPU_TEMP": (DCGM, (("C", 1),)),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (DCGM, NUMBER),
}
"""Metrics of Prometheus, kube-state-metrics and dcgm-exporter, with their labels by default."""
RENAMED = frozenset({"exported_namespace", "exported_pod", "exported_container"})
"""What Prometheus makes of labels where it does not honour them: one alert looks for it."""

OWN = {PREFIX + metric.name: metric for metric in METRICS}
RATES = {"rate", "increase", "irate", "resets"}
OVER_TIME = {f"{how}_over_time" for how in ("max", "min", "avg", "last", "sum", "count")}
WHO = "who"
MEMBERSHIP = {"group", "count", WHO}
"""Aggregations that ask who is there, and not for the value."""


class Wrong(Exception):
    """A query that makes no sense, in one sentence."""


@dataclass(frozen=True)
class Type:
    """What an expression gives; a scalar has no labels."""

    labels: frozenset[str]
    dimension: Dimension
    scalar: bool = False


def unit_of(name: str) -> Dimension:
    """Return the dimension that a metric's name says."""
    base = name.removesuffix("_total")
    for ending, dimension in (
        ("_seconds", (("s", 1),)),
        ("_bytes", (("B", 1),)),
        ("_per_hour", (("money", 1),)),
    ):
        if base.endswith(ending):
            return dimension
    return NUMBER


def combined(one: Dimension, other: Dimension, sign: int = 1) -> Dimension:
    """Return the dimension of a product, or of a quotient with sign -1."""
    if ANY in (one, other):
        return ANY
    powers = dict(one)
    for base, power in other:
        powers[base] = powers.get(base, 0) + sign * power
    return tuple(sorted((base, power) for base, power in powers.items() if power))


def agree(one: Type, other: Type, what: str) -> Dimension:
    """Return the dimension of a sum, a difference or a comparison."""
    if one.scalar or one.dimension == ANY:
        return other.dimension
    if other.scalar or other.dimension == ANY or one.dimension == other.dimension:
        return one.dimension
    raise Wrong(f"{what} of {one.dimension} and {other.dimension}")


def check(query: str) -> Type:
    """Return what a query gives.

    Raises:
        Wrong: it does not parse, or makes no sense.
    """
    try:
        tree = grammar.parse(query)
    except ValueError as error:
        raise Wrong(f"{query} does not parse: {error}") from error
    try:
        return _type(tree, "")
    except Wrong as error:
        raise Wrong(f"{error} in: {query}") from error


@cache
def recorded() -> dict[str, str]:
    """Return the recording rules, query by name."""
    groups = yaml.safe_load((RULES / "recording.yaml").read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


@cache
def type_of_recorded(name: str) -> Type:
    """Return what a recording rule gives."""
    return check(recorded()[name])


def _type(tree: grammar.Expr, inside: str) -> Type:
    match tree:
        case grammar.NumberLiteral():
            return Type(frozenset(), ANY if tree.val == 0 else NUMBER, scalar=True)
        case grammar.ParenExpr() | grammar.UnaryExpr() | grammar.SubqueryExpr():
            return _type(tree.expr, inside)
        case grammar.MatrixSelector():
            return _selector(tree.vector_selector, inside)
        case grammar.VectorSelector():
            return _selector(tree, inside)
        case grammar.AggregateExpr():
            return _aggregate(tree)
        case grammar.Call():
            return _call(tree)
        case grammar.BinaryExpr():
            return _binary(tree, inside)
    raise Wrong(f"{tree} is of a kind that no dashboard needs")


def _selector(tree: grammar.VectorSelector, inside: str) -> Type:
    name = tree.name or ""
    base, histogram = name, False
    for ending in ("_bucket", "_sum", "_count"):
        if (whole := name.removesuffix(ending)) != name and whole in OWN:
            base, histogram = whole, True
    if base in OWN:
        metric = OWN[base]
        labels = (
            frozenset(metric.labels) | SCRAPED | ({"le"} if name.endswith("_bucket") else set())
        )
        counts = metric.kind is Kind.COUNTER or histogram
        dimension = NUMBER if name.endswith(("_bucket", "_count")) and histogram else unit_of(base)
        if counts and inside not in RATES | MEMBERSHIP | {"last_over_time"}:
            raise Wrong(f"counter {name} without a rate")
        if not counts and inside in RATES:
            raise Wrong(f"rate of {name}, which is a gauge")
        found = Type(labels, dimension)
    elif name in recorded():
        found = type_of_recorded(name)
        if inside in RATES:
            raise Wrong(f"rate of {name}, which is a rate or a gauge")
    elif name in FOREIGN:
        found = Type(*FOREIGN[name])
    else:
        raise Wrong(f"no metric {name!r}")
    for matcher in tree.matchers.matchers:
        if matcher.name not in found.labels | (RENAMED if base in OWN else set()):
            raise Wrong(f"{name} has no label {matcher.name}")
    return found


def _aggregate(tree: grammar.AggregateExpr) -> Type:
    how = str(tree.op)
    of = _type(tree.expr, how)
    labels: frozenset[str] = frozenset()
    if tree.modifier is not None:
        if str(tree.modifier.type) != "AggModifierType.By":
            raise Wrong("without: the labels left depend on the scrape")
        labels = frozenset(tree.modifier.labels)
        if missing := labels - of.labels:
            raise Wrong(f"{how} by {sorted(missing)}, which {tree.expr} does not have")
    if how in {"topk", "bottomk"}:
        return of
    return Type(labels, NUMBER if how in MEMBERSHIP else of.dimension)


def _call(tree: grammar.Call) -> Type:
    name = tree.func.name
    if name == "histogram_quantile":
        of = _type(tree.args[1], name)
        if "le" not in of.labels:
            raise Wrong("quantile of what has no buckets")
        return Type(of.labels - {"le"}, (("s", 1),))
    if name in {"label_replace", "label_join"}:
        of = _type(tree.args[0], name)
        made, *words = [argument.val for argument in tree.args[1:]]
        sources = words[1:2] if name == "label_replace" else words[1:]
        if missing := {each for each in sources if each} - of.labels:
            raise Wrong(f"{name} from {sorted(missing)}, which is not there")
        return Type(of.labels | {made}, of.dimension)
    of = _type(tree.args[-1], name)
    if name == "absent":
        return Type(frozenset(), NUMBER)
    if name in {"rate", "irate"}:
        return Type(of.labels, combined(of.dimension, (("s", 1),), -1))
    if name in {"changes", "resets", "count_over_time"}:
        return Type(of.labels, NUMBER)
    if name == "increase" or name in OVER_TIME:
        return of
    raise Wrong(f"{name}() is a function that no dashboard needs")


def _binary(tree: grammar.BinaryExpr, inside: str) -> Type:
    how = str(tree.op)
    # Of the right side of `and` and `unless` only the labels are asked for.
    around = WHO if inside in MEMBERSHIP else ""
    asked = WHO if how in {"and", "unless"} else around
    left, right = _type(tree.lhs, around), _type(tree.rhs, asked)
    on, many = _matching(tree, left, right)
    if how in {"and", "unless"}:
        return left
    if how == "or":
        dimension = left.dimension if around else agree(left, right, how)
        return Type(left.labels | right.labels, dimension)
    labels = _joined(tree, left, right, on, many)
    scalar = left.scalar and right.scalar
    if how == "*":
        return Type(labels, combined(left.dimension, right.dimension), scalar)
    if how == "/":
        if left.dimension == (("%", 1),) and str(tree.rhs) == "100":
            return Type(labels, NUMBER)
        return Type(labels, combined(left.dimension, right.dimension, -1), scalar)
    dimension = agree(left, right, how)
    returns_bool = tree.modifier is not None and tree.modifier.return_bool
    return Type(labels, NUMBER if returns_bool else dimension, scalar)


def _matching(
    tree: grammar.BinaryExpr, left: Type, right: Type
) -> tuple[frozenset[str] | None, str]:
    """Return the labels after `on`, None without it, and which side is the many."""
    if tree.modifier is None or tree.modifier.matching is None:
        # Without `on` both sides must have the same labels, else nothing ever matches.
        if (
            not (left.scalar or right.scalar or str(tree.op) == "or")
            and left.labels != right.labels
        ):
            raise Wrong(f"{tree.op} matches {sorted(left.labels)} with {sorted(right.labels)}")
        return None, str(tree.modifier.card if tree.modifier else "")
    if "On" not in str(tree.modifier.matching.type) and "Include" not in str(
        tree.modifier.matching.type
    ):
        raise Wrong(f"matching is {tree.modifier.matching.type}: say on (...)")
    on = frozenset(tree.modifier.matching.labels)
    for side in (left, right):
        if missing := on - side.labels:
            raise Wrong(f"on {sorted(missing)}, which one side of {tree.op} does not have")
    return on, str(tree.modifier.card)


def _joined(
    tree: grammar.BinaryExpr, left: Type, right: Type, on: frozenset[str] | None, card: str
) -> frozenset[str]:
    if left.scalar or right.scalar:
        return left.labels | right.labels
    if "ManyToOne" in card or "OneToMany" in card:
        many, one = (left, right) if "ManyToOne" in card else (right, left)
        taken = frozenset(tree.modifier.group_labels or ())
        if missing := taken - one.labels:
            raise Wrong(f"group takes {sorted(missing)}, which the one side does not have")
        return many.labels | taken
    return left.labels if on is None else on
