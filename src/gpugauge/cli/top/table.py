"""The table of `top`, by pod and by GPU."""

from __future__ import annotations

from collections.abc import Sequence

from gpugauge.cli.terminal.colour import Colour
from gpugauge.cli.terminal.table import Column, table
from gpugauge.cli.top import cells
from gpugauge.cli.top.gpus import GpuRow
from gpugauge.cli.top.rows import Row

NARROW = 120
"""Below it namespace and pod stand in one column."""
_FIGURES = (
    Column(head="GPU", right=True, least=4),
    Column(head="LAUNCH/S", right=True),
    Column(head="WAITS", right=True),
    Column(head="IDLE", right=True, rank=1),
    Column(head="TO-GPU", right=True, rank=5),
    Column(head="TO-HOST", right=True, rank=6),
    Column(head="HELD/REQ", right=True, rank=4),
    Column(head="SHARE", right=True, rank=3),
    Column(head="FINDING", least=10, rank=2),
)
GPUS = (
    Column(head="NODE", least=12),
    Column(head="MODEL", least=6, rank=8),
    Column(head="GPU", right=True),
    Column(head="PODS", right=True),
    Column(head="LAUNCH/S", right=True),
    Column(head="TO-GPU", right=True, rank=3),
    Column(head="TO-HOST", right=True, rank=4),
    Column(head="USED/TOTAL", right=True, rank=2),
    Column(head="FINDINGS", right=True, rank=5),
)


def pod_table(
    rows: Sequence[Row], room: int, colour: Colour, *, namespaces: bool, nodes: bool
) -> list[str]:
    """Return the table by pod.

    Args:
        rows: In the order in which they are shown.
        room: Columns of the terminal.
        colour: Of what deserves a look.
        namespaces: Whether there is more than one namespace.
        nodes: Whether there is more than one node.
    """
    joined = namespaces and room < NARROW
    columns = [
        *([Column(head="NAMESPACE", least=6)] if namespaces and not joined else []),
        *([Column(head="NODE", least=6, rank=7)] if nodes else []),
        Column(head="NAMESPACE/POD" if joined else "POD", least=18 if joined else 12),
        Column(head="CONTAINER", least=6, rank=8),
        *_FIGURES,
    ]
    texts = []
    for row in rows:
        namespace, name = row.owner.namespace, cells.pod(row.owner)
        texts.append(
            [
                *([namespace or cells.NOTHING] if namespaces and not joined else []),
                *([row.node] if nodes else []),
                f"{namespace}/{name}" if joined and namespace else name,
                row.owner.container or cells.NOTHING,
                *_figures(row),
            ]
        )

    def style(number: int, head: str, cell: str) -> str:
        if head == "FINDING" and rows[number].findings:
            return colour.severity(rows[number].findings[0].severity, cell)
        return colour.faint(cell) if cell.strip() == cells.NOT_KNOWN else cell

    return table(columns, texts, room, style)


def _figures(row: Row) -> list[str]:
    return [
        cells.gpu(row),
        cells.count(row.launches_per_second, row.launches_at_least),
        cells.percent(row.host_waits_ratio),
        cells.percent(row.known_idle_ratio),
        cells.size(row.to_gpu_bytes_per_second),
        cells.size(row.to_host_bytes_per_second),
        cells.sizes(row.memory_held_bytes, row.memory_requested_bytes),
        cells.NOT_KNOWN if row.sharers is None else str(row.sharers),
        cells.findings(row),
    ]


def gpu_table(rows: Sequence[GpuRow], room: int, colour: Colour) -> list[str]:
    """Return the table by GPU."""
    texts = [
        [
            row.node,
            row.model or cells.NOT_KNOWN,
            row.gpu,
            str(row.pods),
            cells.count(row.launches_per_second, row.launches_at_least),
            cells.size(row.to_gpu_bytes_per_second),
            cells.size(row.to_host_bytes_per_second),
            cells.sizes(row.memory_used_bytes, row.memory_total_bytes),
            cells.NOT_KNOWN if row.findings is None else str(row.findings),
        ]
        for row in rows
    ]

    def style(_number: int, _head: str, cell: str) -> str:
        return colour.faint(cell) if cell.strip() == cells.NOT_KNOWN else cell

    return table(GPUS, texts, room, style)
