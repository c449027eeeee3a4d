"""The dashboard of a cluster: who waits, who starves, who shares, what lies idle."""

from __future__ import annotations

from deploy.grafana.parts import variables
from deploy.grafana.parts.layout import Page, Row
from deploy.grafana.parts.names import SEVERITIES, Board, Unit, field, label, way
from deploy.grafana.parts.panels import Panel, Query, lines, number
from deploy.grafana.parts.queries import (
    host_waits,
    largest,
    submissions,
    total,
    with_node,
    zero_if,
)
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows import glance
from deploy.grafana.rows.devices import devices
from deploy.grafana.rows.fleet import CHOSEN, TO_WORKLOAD
from deploy.grafana.rows.idle import idle
from deploy.grafana.rows.waiting import waits, workloads

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
            Row("Who waits, who starves", [*waits(), workloads()]),
            Row("Who shares", [devices(CHOSEN), _shared(), _gaps()]),
            Row("Idle GPUs and their cost", idle()),
            Row(
                "Alerts and findings", [_alerts(), _rules(), glance.open_findings(CHOSEN, width=24)]
            ),
            Row("Namespaces", _namespaces()),
        ],
    )


def _numbers() -> list[Panel]:
    agents = f"count({CHOSEN.of('agent_up')})"
    unused = total(CHOSEN.recorded("node:gpugauge_idle_devices:sum"))
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
            unused,
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


def _alerts() -> Panel:
    keys = ("alertname", "severity", "node", "namespace", "workload", "pod")
    firing = 'ALERTS{alertname=~"Gpugauge.+", alertstate="firing", cluster=~"$cluster"}'
    return table(
        "Alerts that fire",
        "Alerts of gpugauge, by whom they are about. docs/alerts.md has a paragraph for each.",
        keys,
        [Column("firing", largest(firing, keys), shown=False)],
        width=12,
        height=7,
        wrong="Only while the alerting rules are loaded into this Prometheus. Alerts that "
        "Alertmanager silences fire here too.",
        empty="No alert fires, or the alerting rules are not loaded.",
        links={
            "node": {"Node": way(Board.NODE, node=field("node"))},
            "workload": {"Workload": TO_WORKLOAD},
            "pod": {"Pod": way(Board.POD, namespace=field("namespace"), pod=field("pod"))},
        },
        colors={"severity": SEVERITIES},
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
