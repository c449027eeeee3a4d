"""Figures of `top`, as short as a table wants them; `?` is what is not known."""

from __future__ import annotations

from gpugauge.cli.top.rows import Row
from gpugauge.model.finding import Severity
from gpugauge.model.workload import UNKNOWN, Owner, Scope
from gpugauge.units import GIB, KIB, MIB

NOT_KNOWN = "?"
NOTHING = "-"
UNITS = ((1024 * GIB, "Ti"), (GIB, "Gi"), (MIB, "Mi"), (KIB, "Ki"), (1, ""))
MARKS = {Severity.CRITICAL: "!!", Severity.WARNING: "!", Severity.INFO: ""}


def count(per_second: float | None, at_least: bool = False) -> str:
    """Return a rate: `1,270`, `1.38M`; `1,270+` for a lower bound."""
    if per_second is None:
        return NOT_KNOWN
    if per_second >= 999_500:
        text = f"{_digits(per_second / 1_000_000)}M"
    elif per_second >= 99_999.5:
        text = f"{per_second / 1_000:.0f}k"
    elif per_second >= 9.95:
        text = f"{per_second:,.0f}"
    elif per_second >= 0.001 or not per_second:
        text = f"{per_second:.2g}"
    else:
        text = "<0.001"
    return f"{text}+" if at_least else text


def percent(ratio: float | None) -> str:
    """Return a share: `37%`."""
    return NOT_KNOWN if ratio is None else f"{ratio:.0%}"


def size(amount_bytes: float | None) -> str:
    """Return a size as Kubernetes writes them: `12.3Mi`."""
    if amount_bytes is None:
        return NOT_KNOWN
    unit, name = _unit(amount_bytes)
    return f"{_digits(amount_bytes / unit)}{name}"


def sizes(held_bytes: float | None, requested_bytes: float | None) -> str:
    """Return two sizes in the unit of the larger: `9.4/8.1Gi`."""
    known = [one for one in (held_bytes, requested_bytes) if one is not None]
    if not known:
        return NOT_KNOWN
    unit, name = _unit(max(known))
    texts = [
        NOT_KNOWN if one is None else _digits(one / unit) for one in (held_bytes, requested_bytes)
    ]
    return "/".join(texts) + name


def findings(row: Row) -> str:
    """Return the gravest finding, and how many more there are: `! noisy_neighbour +1`."""
    if not row.findings_known:
        return NOT_KNOWN
    if not row.findings:
        return NOTHING
    mark = MARKS[row.findings[0].severity]
    more = len(row.findings) - 1
    return f"{mark} {row.findings[0].rule}{f' +{more}' if more else ''}".strip()


def pod(owner: Owner) -> str:
    """Return whose it is; brackets for what is no pod."""
    if owner.scope is Scope.POD:
        return owner.pod or NOT_KNOWN
    if owner.scope is Scope.CONTAINER:
        return f"(container {owner.container or owner.container_id[:12]})"
    return f"({owner.scope.value})"


def gpu(row: Row) -> str:
    """Return the index of the GPU."""
    return row.gpu or NOT_KNOWN if row.gpu_uuid != UNKNOWN else NOT_KNOWN


def _unit(amount_bytes: float) -> tuple[int, str]:
    # From 1,000 of a unit on, 0.98 of the next one is shorter.
    return next((u, name) for u, name in UNITS if abs(amount_bytes) >= u * 0.9765 or u == 1)


def _digits(number: float) -> str:
    if number < 0.01:
        return "<0.01" if number else "0"
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
