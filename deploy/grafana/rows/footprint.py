"""What the agents cost: rows of the agent dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import RATE
from deploy.grafana.rows.agents import CHOSEN, NODE, NONE, by_node, named


def cost() -> list[Panel]:
    """Return CPU and memory, of the agents and of the traced processes."""
    hits = f"rate({CHOSEN.of('agent_probe_hits_total')}[{RATE}])"
    a_call = CHOSEN.of("agent_probe_cost_seconds")
    used = f"rate({CHOSEN.of('agent_cpu_seconds_total')}[{RATE}])"
    return [
        lines(
            "CPU of the agent",
            "Cores that the agent itself uses.",
            [Query(named(used), NODE)],
            Unit.COUNT,
            width=8,
            axis="cores",
            empty=NONE,
        ),
        lines(
            "Time added to traced processes",
            "Threads' worth of time that the probes take from all traced processes of a node: "
            "hits times half of the cost of a call.",
            [Query(named(f"({hits} * on (instance) {a_call} / 2)"), NODE)],
            Unit.COUNT,
            width=8,
            wrong="The cost was measured at start with programs that only count; the real ones "
            "take 0.2 to 0.7 us a call more.",
            axis="threads",
            empty="The cost of a probe was not measured, or no agent is scraped.",
        ),
        lines(
            "Probe hits",
            "Entries and returns of driver calls.",
            [Query(named(hits), NODE)],
            Unit.PER_SECOND,
            width=8,
            empty=NONE,
        ),
        lines(
            "Memory of the agent",
            "Resident memory, BPF maps, and the history for diagnosis, which is part of the "
            "resident memory.",
            [
                Query(by_node("agent_resident_memory_bytes"), "{{node}} resident"),
                Query(by_node("agent_bpf_memory_bytes"), "{{node}} BPF maps"),
                Query(by_node("agent_history_bytes"), "{{node}} history"),
            ],
            Unit.BYTES,
            empty=NONE,
        ),
        lines(
            "Cost of probes a call",
            "Time that entry and return add to one call, measured at start.",
            [Query(by_node("agent_probe_cost_seconds"), NODE)],
            Unit.SECONDS,
            empty="Not measured.",
        ),
    ]


def series() -> list[Panel]:
    """Return what had no room."""
    return [
        lines(
            "Owners added up in `other`",
            "For lack of room in the setting `series.per_node`. 0 while each has its own series.",
            [Query(by_node("agent_folded_owners"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
        lines(
            "Series left out",
            "One owner had too many on one device: the setting `series.per_owner`. 0 while all "
            "are exported.",
            [Query(by_node("agent_series_dropped"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
    ]
