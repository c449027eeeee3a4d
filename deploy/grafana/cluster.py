"""The dashboard of a cluster: who waits, who starves, who shares, what lies idle."""

from __future__ import annotations

from deploy.grafana import glance, variables
from deploy.grafana.devices import devices
from deploy.grafana.layout import Page, Row
from deploy.grafana.names import Board, Unit, field, label, way
from deploy.grafana.panels import Panel, Query, lines, number
from deploy.grafana.queries import (
    RATE,
    Selection,
    gpu_waits,
    host_waits,
    largest,
    submissions,
    total,
    with_node,
    zero_if,
)
from deploy.grafana.tables import Column, table

CHOSEN = Selection(("cluster", "namespace", "workload", "gpu"))
KEYS = ("namespace", "workload")
NAMED = "{{namespace}}/{{workload}}"
SHOWN = 10
TO_WORKLOAD = way(Board.WORKLOAD, namespace=field("namespace"), workload=field("workload"))
LINE_TO_WORKLOAD = way(Board.WORKLOAD, namespace=label("namespace"), workload=label("workload"))
NO_RULES = "No device is known yet, or the recording rules are not loaded."
NO_PRICE = "no price"


def page() -> Page:
    """Return the dashboard."""
    return Page(
        board=Board.CLUSTER,
        description="All GPUs of a cluster: who waits for them, who starves them, who shares "
        "them, and what the idle ones cost.",
        variables=[
            variables.source(),
            variables.cluster(),
            variables.namespaces(),
            variables.workloads(),
            variables.gpus("cluster"),
        ],
        rows=[
            Row("Now", _numbers()),
            Row("Who waits, who starves", [*_waits(), _workloads()]),
            Row("Who shares", [devices(CHOSEN), _shared(), _gaps()]),
            Row("Idle GPUs and their cost", [_idle(), _cost(), _holders()]),
            Row("Findings", [glance.open_findings(CHOSEN), _rules()]),
            Row("Namespaces", _namespaces()),
        ],
    )


def _numbers() -> list[Panel]:
    agents = f"count({CHOSEN.of('agent_up')})"
    idle = total(CHOSEN.recorded("node:gpugauge_idle_devices:sum"))
    cost = total(CHOSEN.recorded("node:gpugauge_idle_cost_per_hour:sum"), ("currency",))
    pods = CHOSEN.of("launches_total", 'scope="pod"')
    return [
        number(
            "GPUs",
            "Devices that can be given to somebody: GPUs, or the MIG instances they are cut into.",
            total(CHOSEN.recorded("node:gpugauge_devices:count")),
            Unit.COUNT,
            wrong="GPUs of nodes without an agent, or whose NVML does not answer, are not counted.",
        ),
        number(
            "Idle GPUs",
            "Without any work for half an hour, held by somebody or not.",
            idle,
            Unit.COUNT,
            wrong="A GPU that works for a process that is not traced is idle by the probes; "
            "NVML's utilization is asked too, which MIG does not have.",
            steps=((None, "green"), (1, "orange")),
            decimals=0,
        ),
        number(
            "Idle GPUs, cost per hour",
            "What they cost by the price table of the agents' settings.",
            cost,
            Unit.MONEY,
            wrong="GPUs without a price in that table cost nothing here.",
            empty=NO_PRICE,
            steps=((None, "text"), (0.01, "orange")),
            decimals=2,
            legend="{{currency}}",
        ),
        number(
            "Shared GPUs",
            "With processes of two pods or more: they take turns, and memory and faults are "
            "common.",
            f"sum({CHOSEN.of('device_pods')} > bool 1)",
            Unit.COUNT,
            steps=((None, "text"), (1, "orange")),
        ),
        number(
            "Pods on GPUs",
            "Pods that were seen to call the driver.",
            zero_if(f"count(group by (namespace, pod) ({pods}))", agents),
            Unit.COUNT,
            empty="no agent",
        ),
        number(
            "Open findings",
            "What the diagnosis has open now, in all that is chosen.",
            zero_if(total(CHOSEN.of("finding")), agents),
            Unit.COUNT,
            wrong="0 says that no rule fired, not that all is well.",
            empty="no agent",
            steps=((None, "green"), (1, "orange")),
        ),
        number(
            "Processes not seen",
            "On a GPU, and not traced: nothing here counts their work.",
            zero_if(total(CHOSEN.of("agent_unprobed_processes")), agents),
            Unit.COUNT,
            empty="no agent",
            steps=((None, "green"), (1, "orange")),
        ),
        number(
            "Agents ready",
            "Nodes whose agent has scanned for driver libraries.",
            total(CHOSEN.of("agent_ready")),
            Unit.COUNT,
            empty="no agent",
        ),
    ]


def _waits() -> list[Panel]:
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


def _workloads() -> Panel:
    held = total(CHOSEN.of("memory_held_bytes"), KEYS)
    findings = total(CHOSEN.of("finding"), KEYS)
    return table(
        "Workloads",
        "One line a workload, of now. Click one for its dashboard. A workload with launches and "
        "neither kind of waiting is in balance.",
        KEYS,
        [
            Column("launches", CHOSEN.rate("launches_total", by=KEYS), Unit.PER_SECOND),
            Column("graph launches", CHOSEN.rate("graph_launches_total", by=KEYS), Unit.PER_SECOND),
            Column("host waits", host_waits(CHOSEN, KEYS), Unit.SHARE),
            Column("GPU waits", gpu_waits(CHOSEN, KEYS), Unit.SHARE),
            Column("copied", CHOSEN.rate("copy_bytes_total", by=KEYS), Unit.BYTES_PER_SECOND),
            Column("memory held", held, Unit.BYTES),
            Column("findings", findings),
        ],
        height=10,
        links={"workload": {"Workload": TO_WORKLOAD}},
        sort="launches",
    )


def _shared() -> Panel:
    pods = with_node(f"({CHOSEN.of('device_pods')} > 1)", CHOSEN.of("agent_info"))
    return lines(
        "Pods per shared GPU",
        "GPUs with processes of two pods or more.",
        [Query(pods, "{{node}} GPU {{gpu}}")],
        Unit.COUNT,
        empty="No GPU is shared.",
        links={"Node": way(Board.NODE, node=label("node"), gpu=label("gpu_uuid"))},
    )


def _gaps() -> Panel:
    keys = ("kind", "namespace", "workload", "pod", "gpu_uuid")
    return table(
        "Used but not given, given but not used",
        "`not_entitled`: a pod works on a GPU that the kubelet did not give it, and whoever was "
        "given it pays. `not_used`: a pod holds a GPU for two minutes or more and never worked on "
        "it.",
        keys,
        [Column("gap", largest(CHOSEN.of("entitlement_gap"), keys), shown=False)],
        width=12,
        empty="What is used is what was given, or no kubelet answers its agent.",
        links={"pod": {"Pod": way(Board.POD, namespace=field("namespace"), pod=field("pod"))}},
    )


def _idle() -> Panel:
    return lines(
        "Idle GPUs over time",
        "Without any work for half an hour. Those that are held cannot be given to others; the "
        "rest is free.",
        [
            Query(total(CHOSEN.recorded("node:gpugauge_idle_devices:sum")), "idle"),
            Query(
                total(CHOSEN.recorded("namespace_workload:gpugauge_idle_devices:sum")),
                "idle and held",
            ),
        ],
        Unit.COUNT,
        width=8,
        wrong="Known half an hour after the agent came. By the namespaces and workloads that are "
        "chosen only for those that are held.",
        empty=NO_RULES,
        colors={"idle": "blue", "idle and held": "orange"},
    )


def _cost() -> Panel:
    held = CHOSEN.recorded("namespace_workload:gpugauge_idle_cost_per_hour:sum")
    whole = CHOSEN.recorded("node:gpugauge_idle_cost_per_hour:sum")
    return lines(
        "Cost per hour of idle GPUs",
        "What idle GPUs cost: all of them, and by the namespace that holds them. A GPU that "
        "several hold is divided by them.",
        [
            Query(total(whole, ("currency",)), "all, {{currency}}"),
            Query(total(held, ("namespace", "currency")), "{{namespace}}, {{currency}}"),
        ],
        Unit.MONEY,
        width=8,
        wrong="GPUs without a price in the agents' price table cost nothing here; prices are not "
        "converted between currencies.",
        empty="No price is known: set price.per_gpu_hour in the agent's settings.",
    )


def _holders() -> Panel:
    idle = total(CHOSEN.recorded("namespace_workload:gpugauge_idle_devices:sum"), KEYS)
    cost = total(CHOSEN.recorded("namespace_workload:gpugauge_idle_cost_per_hour:sum"), KEYS)
    held = total(CHOSEN.of("memory_held_bytes"), KEYS)
    return table(
        "Who holds GPUs",
        "Workloads with a context, memory or a given device: how much of it is idle, and what "
        "that costs an hour.",
        KEYS,
        [
            Column("idle GPUs", idle),
            Column("cost per hour", cost, Unit.MONEY),
            Column("memory held", held, Unit.BYTES),
        ],
        width=8,
        wrong="A stand-by replica is meant to be idle.",
        empty=NO_RULES,
        links={"workload": {"Workload": TO_WORKLOAD}},
        sort="idle GPUs",
    )


def _rules() -> Panel:
    return lines(
        "Open findings by rule",
        "How many the diagnosis has open, by rule.",
        [Query(total(CHOSEN.of("finding"), ("rule",)), "{{rule}}")],
        Unit.COUNT,
        height=7,
        empty="The diagnosis has nothing open.",
        stacked=True,
    )


def _namespaces() -> list[Panel]:
    by = ("namespace",)
    return [
        lines(
            "Launch calls by namespace",
            "Launches and graph launches; each is one call. For demand, see a workload.",
            [Query(submissions(CHOSEN, by), "{{namespace}}")],
            Unit.PER_SECOND,
            width=8,
            stacked=True,
        ),
        lines(
            "Host waits by namespace",
            "Share of time under back pressure.",
            [Query(host_waits(CHOSEN, by), "{{namespace}}")],
            Unit.SHARE,
            width=8,
        ),
        lines(
            "Memory held by namespace",
            "Device memory held, by NVML.",
            [Query(total(CHOSEN.of("memory_held_bytes"), by), "{{namespace}}")],
            Unit.BYTES,
            width=8,
            stacked=True,
            empty="NVML does not list the processes.",
        ),
    ]
