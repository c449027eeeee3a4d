"""Numbers and names as people read them in a sentence."""

from __future__ import annotations

from gpugauge.model.finding import Evidence
from gpugauge.model.workload import Owner, Scope
from gpugauge.units import bytes_text, duration_text

LIMIT_NAME = 128


def clean(name: str) -> str:
    """Return a name of a tenant without control characters, cut at 128."""
    return "".join(ch if ch.isprintable() else "?" for ch in name[:LIMIT_NAME])


def owner_text(owner: Owner | None, command: str = "", pid: int = 0) -> str:
    """Return whose it is: `ml/train-0`, or a process of the host."""
    if owner is not None and owner.scope is Scope.POD:
        return f"{clean(owner.namespace)}/{clean(owner.pod)}"
    if owner is not None and owner.scope is Scope.CONTAINER:
        return f"container {clean(owner.container or owner.container_id[:12])}"
    process = f"{clean(command) or 'process'} ({pid})" if pid else "a host process"
    if owner is not None and owner.scope is Scope.UNKNOWN:
        return f"{process} of an unknown owner"
    return process


def percent(ratio: float) -> str:
    """Return a share: `37 %`."""
    return f"{ratio * 100:.0f} %"


def rate(per_second: float) -> str:
    """Return a rate: `1,270/s`."""
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.2g}/s"


def times(factor: float) -> str:
    """Return a factor: `2.4 times`."""
    return f"{factor:.1f} times" if factor < 10 else f"{factor:.0f} times"


def seconds_text(seconds: float) -> str:
    """Return a duration: `1.90 ms`, `3 min`, `2.0 h`."""
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.0f} min"
    return duration_text(seconds * 1e9)


def value_text(value: float, unit: str) -> str:
    """Return a number of evidence with its unit."""
    if unit == "s":
        return seconds_text(value)
    if unit == "bytes":
        return bytes_text(value)
    if unit == "bytes/s":
        return f"{bytes_text(value)}/s"
    if unit == "ratio":
        return percent(value)
    if unit == "1/s":
        return rate(value)
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return text if unit == "count" else f"{text} {unit}"


def evidence_text(evidence: Evidence) -> str:
    """Return a line of evidence: `wait per synchronization: 2.67 ms, usually 222.00 us`."""
    text = f"{evidence.name}: {value_text(evidence.now, evidence.unit)}"
    if evidence.before is not None:
        text += f", usually {value_text(evidence.before, evidence.unit)}"
    return text
