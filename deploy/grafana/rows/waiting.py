"""Who waits for GPUs and who starves them: the row of the cluster dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import RATE, gpu_waits, host_waits, largest, total
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows.fleet import CHOSEN, KEYS, LINE_TO_WORKLOAD, NAMED, TO_WORKLOAD

SHOWN = 10


def waits() -> list[Panel]:
    """Return the workloads that stand out."""
    throttled = largest(f"rate({CHOSEN.of('cpu_throttled_seconds_total')}[{RATE}])", KEYS)
    return [
        lines(
            "Who waits for the GPU",
            f"Share of time under back pressure, the {SHOWN} highest. A saturated GPU that serves "
            "one workload shows here too: that is good use, unless somebody else shares it.",
            [Query(f"topk({SHOWN}, {host_waits(CHOSEN, KEYS)})", NAMED)],
            Unit.SHARE,
            width=8,
            links={"Workload": LINE_TO_WORKLOAD},
        ),
        lines(
            "Who starves the GPU",
            f"Share of time in which the GPU waited for the program, the {SHOWN} highest. Paid "
            "for, held, and without work.",
            [Query(f"topk({SHOWN}, {gpu_waits(CHOSEN, KEYS)})", NAMED)],
            Unit.SHARE,
            width=8,
            links={"Workload": LINE_TO_WORKLOAD},
        ),
        lines(
            "Who is throttled",
            f"Share of time for which a CPU limit stopped the container, the {SHOWN} highest. A "
            "usual reason to starve a GPU.",
            [Query(f"topk({SHOWN}, {throttled})", NAMED)],
            Unit.SHARE,
            width=8,
            empty="No workload on a GPU has a CPU limit.",
            links={"Workload": LINE_TO_WORKLOAD},
        ),
    ]


def workloads() -> Panel:
    """Return one line a workload."""
    keys = (*KEYS, "scope")
    held = total(CHOSEN.of("memory_held_bytes"), keys)
    findings = total(CHOSEN.of("finding"), keys)
    return table(
        "Workloads",
        "One line a workload, of now. Click one for its dashboard. A workload with launches and "
        "neither kind of waiting is in balance. The scope `host` is processes outside pods.",
        keys,
        [
            Column("launches", CHOSEN.rate("launches_total", by=keys), Unit.PER_SECOND),
            Column("graph launches", CHOSEN.rate("graph_launches_total", by=keys), Unit.PER_SECOND),
            Column("host waits", host_waits(CHOSEN, keys), Unit.SHARE),
            Column("GPU waits", gpu_waits(CHOSEN, keys), Unit.SHARE),
            Column("copied", CHOSEN.rate("copy_bytes_total", by=keys), Unit.BYTES_PER_SECOND),
            Column("memory held", held, Unit.BYTES),
            Column("findings", findings),
        ],
        height=10,
        links={"workload": {"Workload": TO_WORKLOAD}},
        sort="launches",
    )
