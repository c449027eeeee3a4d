"""The dashboard of one workload: why is it slow?"""

from __future__ import annotations

from deploy.grafana.parts import events, variables
from deploy.grafana.parts.layout import Page, Row
from deploy.grafana.parts.names import Board, Unit, field, way
from deploy.grafana.parts.panels import Panel
from deploy.grafana.parts.queries import (
    Selection,
    gpu_waits,
    host_waits,
    submissions,
    total,
)
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows import details, glance, signals

CHOSEN = Selection(("cluster", "namespace", "workload", "pod", "gpu"))
OF = signals.Subject(CHOSEN, ("namespace", "workload"))


def page() -> Page:
    """Return the dashboard."""
    return Page(
        board=Board.WORKLOAD,
        description="One workload: its demand, who waits for whom, what it copies and who is on "
        "its GPUs, on one time axis with deploys and findings.",
        variables=[
            variables.source(),
            variables.cluster(),
            variables.namespace(),
            variables.workload(),
            variables.pods_of_workload(),
            variables.gpus("cluster", "namespace", "workload"),
            variables.compare(),
        ],
        annotations=events.events(CHOSEN),
        rows=[
            Row(
                "At a glance",
                [*glance.numbers(OF), glance.patterns(), glance.open_findings(CHOSEN)],
            ),
            Row("Signals", signals.stack(OF)),
            Row("Pods", [_pods()]),
            *details.rows(CHOSEN),
        ],
    )


def _pods() -> Panel:
    keys = ("namespace", "pod")
    held = total(CHOSEN.of("memory_held_bytes"), keys)
    return table(
        "Its pods",
        "One line a pod. One that waits less than its peers is often the slow one: they wait for "
        "it.",
        keys,
        [
            Column("launches", submissions(CHOSEN, keys), Unit.PER_SECOND),
            Column("host waits", host_waits(CHOSEN, keys), Unit.SHARE),
            Column("GPU waits", gpu_waits(CHOSEN, keys), Unit.SHARE),
            Column("copied", CHOSEN.rate("copy_bytes_total", by=keys), Unit.BYTES_PER_SECOND),
            Column("memory held", held, Unit.BYTES),
        ],
        links={"pod": {"Pod": way(Board.POD, namespace=field("namespace"), pod=field("pod"))}},
        sort="launches",
    )
