"""The order of `top`: the most first, what is not known last, equals by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpugauge.cli.top.rows import SEVERITIES, Row

_KEYS: Mapping[str, Callable[[Row], float | None]] = {
    "launches": lambda row: row.launches_per_second,
    "waits": lambda row: row.host_waits_ratio,
    "idle": lambda row: row.known_idle_ratio,
    "to-gpu": lambda row: row.to_gpu_bytes_per_second,
    "to-host": lambda row: row.to_host_bytes_per_second,
    "memory": lambda row: row.memory_held_bytes,
    "sharers": lambda row: row.sharers,
    "findings": lambda row: (
        len(SEVERITIES) - SEVERITIES.index(row.findings[0].severity) if row.findings else None
    ),
    "name": lambda _: None,
}
SORTS = tuple(_KEYS)


def ordered(rows: Iterable[Row], by: str) -> list[Row]:
    """Return rows in the order of one figure."""
    figure = _KEYS[by]

    def key(row: Row) -> tuple[bool, float, str, str, str, str, str]:
        value, whose = figure(row), row.owner
        names = (whose.namespace, whose.pod, whose.container, row.node, row.gpu)
        return (value is None, -(value or 0.0), *names)

    return sorted(rows, key=key)
