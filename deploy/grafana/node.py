"""The dashboard of one node: its GPUs, who is on them, and the same GPUs by dcgm-exporter."""

from __future__ import annotations

from deploy.grafana.parts import variables
from deploy.grafana.parts.layout import Page, Row
from deploy.grafana.parts.names import CAUSES, DIRECTIONS, STATES, Board, Unit, field, label, way
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import (
    RATE,
    Selection,
    gpu_waits,
    host_waits,
    largest,
    part,
    submissions,
    total,
    with_gpu,
)
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows import dcgm
from deploy.grafana.rows.devices import devices

CHOSEN = Selection(("cluster", "instance", "gpu"))
INFO = CHOSEN.of("device_info")
OWNER = ("namespace", "pod", "container", "scope")
NAMED = "{{scope}} {{namespace}}/{{pod}} {{container}}"
NO_NVML = "NVML does not answer on this node."
TO_POD = way(Board.POD, namespace=field("namespace"), pod=field("pod"))
LINE_TO_POD = way(Board.POD, namespace=label("namespace"), pod=label("pod"))


def page() -> Page:
    """Return the dashboard."""
    return Page(
        board=Board.NODE,
        description="One node: its GPUs and who is on them, processes outside pods included.",
        variables=[
            variables.source(),
            variables.cluster(),
            variables.node(),
            variables.instance(),
            variables.gpus("cluster", "instance"),
            variables.dcgm(),
        ],
        rows=[
            Row("GPUs", [devices(CHOSEN), *_sharing()]),
            Row("Who is on them", [_owners(), *_shares()]),
            Row("Back pressure and transfers", _sums()),
            Row("Memory", _memory()),
            Row("Given and used", [_given(), _gaps()]),
            Row("The same GPUs by dcgm-exporter", dcgm.panels(CHOSEN)),
        ],
    )


def _sharing() -> list[Panel]:
    launches = submissions(CHOSEN, ("gpu_uuid",))
    return [
        lines(
            "Launch calls by GPU",
            "Demand on each device. `unknown` where the device of a call, or its index, is not "
            "known.",
            [Query(with_gpu(launches, INFO), "GPU {{gpu}}")],
            Unit.PER_SECOND,
            width=8,
        ),
        lines(
            "Active processes by GPU",
            "Processes that submitted or waited since the last tick. From 2 on they take turns.",
            [Query(CHOSEN.of("device_processes", 'state="active"'), "GPU {{gpu}}")],
            Unit.COUNT,
            width=8,
            empty=NO_NVML,
        ),
        lines(
            "Utilization by GPU",
            "Share of time in which anything at all ran, by NVML. It says busy, not full.",
            [Query(CHOSEN.of("device_utilization_ratio"), "GPU {{gpu}}")],
            Unit.SHARE,
            width=8,
            empty="NVML does not say: under MIG there is none.",
        ),
    ]


def _owners() -> Panel:
    held = total(CHOSEN.of("memory_held_bytes"), OWNER)
    return table(
        "Who is on its GPUs",
        "One line a container; processes of the host have the scope `host` and no pod. `other` is "
        "the sum of those beyond the budget of series.",
        OWNER,
        [
            Column("launch calls", submissions(CHOSEN, OWNER), Unit.PER_SECOND),
            Column("host waits", host_waits(CHOSEN, OWNER), Unit.SHARE),
            Column("GPU waits", gpu_waits(CHOSEN, OWNER), Unit.SHARE),
            Column("copied", CHOSEN.rate("copy_bytes_total", by=OWNER), Unit.BYTES_PER_SECOND),
            Column("memory held", held, Unit.BYTES),
        ],
        links={"pod": {"Pod": TO_POD}},
        sort="launch calls",
    )


def _shares() -> list[Panel]:
    throttled = largest(f"rate({CHOSEN.of('cpu_throttled_seconds_total')}[{RATE}])", OWNER)
    return [
        lines(
            "Host waits, by container",
            "Share of time in which its processes waited for the GPU.",
            [Query(host_waits(CHOSEN, OWNER), NAMED)],
            Unit.SHARE,
            width=8,
            links={"Pod": LINE_TO_POD},
        ),
        lines(
            "GPU waits, by container",
            "Share of time in which the GPU is known to have waited for its processes.",
            [Query(gpu_waits(CHOSEN, OWNER), NAMED)],
            Unit.SHARE,
            width=8,
            links={"Pod": LINE_TO_POD},
        ),
        lines(
            "Throttled, by container",
            "Share of time for which a CPU limit stopped it.",
            [Query(throttled, NAMED)],
            Unit.SHARE,
            width=8,
            empty="No container on a GPU has a CPU limit.",
            links={"Pod": LINE_TO_POD},
        ),
    ]


def _sums() -> list[Panel]:
    states = CHOSEN.rate("process_time_seconds_total", by=("state",))
    return [
        lines(
            "Time split of all processes",
            "Who waited for whom, over all processes of the node. Not by GPU: a process may use "
            "several.",
            [Query(part(states, CHOSEN.rate("process_seconds_total")), "{{state}}")],
            Unit.SHARE,
            width=8,
            colors=STATES,
            stacked=True,
            full=True,
        ),
        lines(
            "Back pressure by cause",
            "Threads that wait for a GPU, on average.",
            [Query(CHOSEN.rate("blocked_seconds_total", by=("cause",)), "{{cause}}")],
            Unit.COUNT,
            width=8,
            axis="threads waiting",
            colors=CAUSES,
            stacked=True,
        ),
        lines(
            "Transfers",
            "Bytes submitted for copying, by direction.",
            [Query(CHOSEN.rate("copy_bytes_total", by=("direction",)), "{{direction}}")],
            Unit.BYTES_PER_SECOND,
            width=8,
            empty="Nobody has copied anything in this time.",
            colors=DIRECTIONS,
        ),
    ]


def _memory() -> list[Panel]:
    return [
        lines(
            "Memory used, by GPU",
            "In use by whomever, by NVML. More than all containers hold means that somebody "
            "untraced is on the device.",
            [
                Query(CHOSEN.of("device_memory_used_bytes"), "GPU {{gpu}} used"),
                Query(CHOSEN.of("device_memory_reserved_bytes"), "GPU {{gpu}} reserved"),
                Query(CHOSEN.of("device_memory_capacity_bytes"), "GPU {{gpu}} capacity"),
            ],
            Unit.BYTES,
            empty=NO_NVML,
        ),
        lines(
            "Memory held, by container",
            "Device memory held, by NVML.",
            [Query(total(CHOSEN.of("memory_held_bytes"), OWNER), NAMED)],
            Unit.BYTES,
            empty="NVML does not list the processes.",
            stacked=True,
            links={"Pod": LINE_TO_POD},
        ),
    ]


def _given() -> Panel:
    keys = ("namespace", "pod", "container", "resource")
    return table(
        "Given by the kubelet",
        "Devices that the kubelet gave to containers, by resource.",
        keys,
        [Column("devices", total(CHOSEN.of("entitled_gpus"), keys))],
        width=12,
        empty="The kubelet gave nobody a GPU, or does not answer the agent.",
        links={"pod": {"Pod": TO_POD}},
    )


def _gaps() -> Panel:
    keys = ("kind", "namespace", "pod", "container", "gpu_uuid")
    return table(
        "Used but not given, given but not used",
        "`not_entitled`: it works on a GPU that it was not given. `not_used`: it holds one and "
        "never worked on it.",
        keys,
        [Column("gap", largest(CHOSEN.of("entitlement_gap"), keys), shown=False)],
        width=12,
        empty="What is used is what was given, or the kubelet does not answer the agent.",
        links={"pod": {"Pod": TO_POD}},
    )
