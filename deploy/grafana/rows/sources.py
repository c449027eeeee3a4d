"""Whom the agents ask, and who may switch them off: rows of the agent dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import RATE, total
from deploy.grafana.rows.agents import CHOSEN, NODE, NONE, by_node, named

OUTCOMES = {
    "written": "green",
    "created": "green",
    "updated": "blue",
    "removed": "text",
    "dropped": "orange",
    "failed": "red",
}


def sources() -> list[Panel]:
    """Return what answers, and when the agent is late."""
    up = "1 while it answers."
    parts = ("agent_nvml_up", "agent_pods_up", "agent_entitlements_up", "agent_ready")
    shown = {name: name.removeprefix("agent_").removesuffix("_up") for name in parts}
    return [
        lines(
            "NVML, pods, entitlements, first scan",
            f"The share of agents to which each source answers. {up}",
            [Query(f"avg({CHOSEN.of(name)})", text) for name, text in shown.items()],
            Unit.SHARE,
            width=8,
            wrong="Entitlements stay 1 while the kubelet restarts: its last answer is kept.",
            empty=NONE,
        ),
        lines(
            "Duration of a tick",
            "Reading the maps and making the snapshot, of the last tick. Far below the second "
            "that it has.",
            [Query(by_node("agent_tick_seconds"), NODE)],
            Unit.SECONDS,
            width=8,
            empty=NONE,
        ),
        lines(
            "Late ticks",
            "Ticks that began late: the agent has too little CPU.",
            [Query(named(f"rate({CHOSEN.of('agent_late_ticks_total')}[{RATE}])"), NODE)],
            Unit.PER_SECOND,
            width=8,
            empty=NONE,
        ),
        lines(
            "Agents switched off, by source",
            "Agents whose probes are off, by what said so: a signal, the node's annotation, or the "
            "ConfigMap. One that says off is enough.",
            [Query(total(CHOSEN.of("agent_probes_switched_off"), ("source",)), "{{source}}")],
            Unit.COUNT,
            width=8,
            empty="No source is watched.",
        ),
        lines(
            "Off switches that can be read",
            "Share of agents that can read a source of the off switch. Below 1, switching off by "
            "it would not reach them all.",
            [Query(f"avg by (source) ({CHOSEN.of('agent_off_switch_up')})", "{{source}}")],
            Unit.SHARE,
            width=8,
            empty="No source is watched.",
        ),
        lines(
            "Off switches with a word nobody knows",
            "Values that were no word for on or off: they change nothing. The log of the agent "
            "shows them.",
            [Query(CHOSEN.rate("agent_off_switch_malformed_total", by=("source",)), "{{source}}")],
            Unit.PER_SECOND,
            width=8,
            empty="No source is watched.",
        ),
    ]


def written() -> list[Panel]:
    """Return what the agents write to Kubernetes, where they were told to."""
    off = "Not switched on: {}.enabled in the agent's settings."
    return [
        lines(
            "Load score of nodes",
            "Points that the scheduler is told: 0 is a node without work, 100 one waiting process "
            "for each GPU.",
            [Query(by_node("agent_load_score"), NODE)],
            Unit.COUNT,
            width=8,
            empty=off.format("load_score"),
            axis="points",
        ),
        lines(
            "Writes of the load score",
            "To the node's annotation, by outcome; at most one a minute.",
            [Query(CHOSEN.rate("agent_load_score_writes_total", by=("outcome",)), "{{outcome}}")],
            Unit.PER_SECOND,
            width=8,
            empty=off.format("load_score"),
            colors=OUTCOMES,
        ),
        lines(
            "Writes of Events",
            "For findings, to their pods, by outcome.",
            [Query(CHOSEN.rate("agent_pod_event_writes_total", by=("outcome",)), "{{outcome}}")],
            Unit.PER_SECOND,
            width=8,
            empty=off.format("pod_events"),
            colors=OUTCOMES,
        ),
    ]
