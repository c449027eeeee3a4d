"""The dashboard of one pod: what it does, where, and beside whom."""

from __future__ import annotations

from deploy.grafana.parts import events, variables
from deploy.grafana.parts.layout import Page, Row
from deploy.grafana.parts.names import Board, Unit, field, way
from deploy.grafana.parts.panels import Panel
from deploy.grafana.parts.queries import RATE, Selection, largest, submissions, total
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows import details, glance, signals

CHOSEN = Selection(("cluster", "namespace", "pod", "gpu"))
OF = signals.Subject(CHOSEN, ("namespace", "pod"))


def page() -> Page:
    """Return the dashboard."""
    return Page(
        board=Board.POD,
        description="One pod: the GPUs it is on and was given, beside whom, and its signals on "
        "one time axis.",
        variables=[
            variables.source(),
            variables.cluster(),
            variables.namespace(),
            variables.pod(),
            variables.gpus("cluster", "namespace", "pod"),
            variables.compare(),
        ],
        annotations=events.events(CHOSEN),
        rows=[
            Row("At a glance", [*glance.numbers(OF), _gpus(), glance.open_findings(CHOSEN)]),
            Row("Signals", signals.stack(OF)),
            Row("Beside whom, and with what right", [_neighbours(), _given(), _gaps()]),
            *details.rows(CHOSEN),
        ],
    )


def _gpus() -> Panel:
    keys = ("container", "gpu_uuid")
    return table(
        "Its GPUs",
        "By container. `gpu_uuid` is unknown where the program never asked which device it has.",
        keys,
        [
            Column("launches", submissions(CHOSEN, keys), Unit.PER_SECOND),
            Column("contexts", total(CHOSEN.of("contexts"), keys)),
            Column("memory held", total(CHOSEN.of("memory_held_bytes"), keys), Unit.BYTES),
        ],
        width=12,
        height=7,
        empty=signals.NOBODY,
        links={"gpu_uuid": {"Cluster, this GPU": way(Board.CLUSTER, gpu=field("gpu_uuid"))}},
    )


def _neighbours() -> Panel:
    keys = ("namespace", "workload", "pod", "gpu_uuid")
    launches = f"rate({OF.around.of('launches_total')}[{RATE}])"
    held = OF.around.of("memory_held_bytes")
    return table(
        "Neighbours on its GPUs",
        "Others with a process on the same GPUs: what they submit, and what they hold.",
        keys,
        [
            Column("launches", OF.others(launches, keys), Unit.PER_SECOND),
            Column("memory held", OF.others(held, keys), Unit.BYTES),
        ],
        width=12,
        empty="It is alone on its GPUs, or their UUIDs are not known.",
        links={
            "pod": {"Pod": way(Board.POD, namespace=field("namespace"), pod=field("pod"))},
        },
        sort="launches",
    )


def _given() -> Panel:
    keys = ("container", "resource")
    return table(
        "Given by the kubelet",
        "Devices that the kubelet gave to its containers, by resource.",
        keys,
        [Column("devices", total(CHOSEN.of("entitled_gpus"), keys))],
        width=6,
        empty="The kubelet gave it none, or does not answer the agent.",
    )


def _gaps() -> Panel:
    keys = ("container", "kind", "gpu_uuid")
    return table(
        "Used but not given, given but not used",
        "`not_entitled`: it submits work to a GPU that it was not given. `not_used`: it holds one "
        "for two minutes or more and never submitted work to it.",
        keys,
        [Column("gap", largest(CHOSEN.of("entitlement_gap"), keys), shown=False)],
        width=6,
        empty="What it uses is what it was given, or the kubelet does not answer the agent.",
    )
