"""The dashboard of the agents themselves: do they see everything, and what do they cost?"""

from __future__ import annotations

from deploy.grafana import variables
from deploy.grafana.layout import Page, Row
from deploy.grafana.names import Board, Unit, field, way
from deploy.grafana.panels import Panel, Query, lines, number
from deploy.grafana.queries import RATE, Selection, largest, total, with_node, zero_if
from deploy.grafana.tables import Column, table

CHOSEN = Selection(("cluster", "instance"))
AGENTS = CHOSEN.of("agent_info")
ALIVE = f"count({CHOSEN.of('agent_up')})"
NONE = "No agent is scraped."
NODE = "{{node}}"


def page() -> Page:
    """Return the dashboard."""
    return Page(
        board=Board.AGENT,
        description="The agents: whether they run, what they cannot see, and what they cost.",
        variables=[
            variables.source(),
            variables.cluster(),
            variables.nodes(),
            variables.instance(),
        ],
        rows=[
            Row("Now", _numbers()),
            Row("Agents", [_agents()]),
            Row("What is not seen", _unseen()),
            Row("What was lost", _lost()),
            Row("Sources", _sources()),
            Row("Cost", _cost()),
            Row("Series", _series()),
        ],
    )


def _named(query: str) -> str:
    return with_node(query, AGENTS)


def _by_node(name: str) -> str:
    return _named(CHOSEN.of(name))


def _numbers() -> list[Panel]:
    def down(name: str) -> str:
        return f"sum(1 - {CHOSEN.of(name)})"

    alarm = ((None, "green"), (1, "red"))
    failed = CHOSEN.of("agent_probes", 'state="failed"')
    return [
        number("Agents", "Those that are scraped.", ALIVE, Unit.COUNT, empty="none"),
        number(
            "Not ready",
            "Agents that have not scanned for driver libraries.",
            down("agent_ready"),
            Unit.COUNT,
            steps=alarm,
        ),
        number(
            "Without NVML",
            "Agents whose NVML does not answer: devices have no names, held memory is absent.",
            down("agent_nvml_up"),
            Unit.COUNT,
            steps=alarm,
        ),
        number(
            "Without pods",
            "Agents that cannot learn pods: new ones show as containers.",
            down("agent_pods_up"),
            Unit.COUNT,
            steps=alarm,
        ),
        number(
            "Without entitlements",
            "Agents to which the kubelet has not told who was given which device.",
            down("agent_entitlements_up"),
            Unit.COUNT,
            steps=alarm,
        ),
        number(
            "Processes not traced",
            "On a GPU, and without probes.",
            zero_if(total(CHOSEN.of("agent_unprobed_processes")), ALIVE),
            Unit.COUNT,
            steps=((None, "green"), (1, "orange")),
        ),
        number(
            "Probes that failed",
            "Places where Linux refused a probe.",
            zero_if(total(failed), ALIVE),
            Unit.COUNT,
            steps=alarm,
        ),
        number(
            "Late ticks",
            "Ticks that began late, a second, over all agents: too little CPU.",
            CHOSEN.rate("agent_late_ticks_total"),
            Unit.PER_SECOND,
            steps=((None, "green"), (0.05, "orange")),
        ),
    ]


def _agents() -> Panel:
    keys = ("node", "version", "attach_mode", "linux_version", "instance")
    info = largest(AGENTS, keys)

    def of_each(query: str) -> str:
        return f"{info} * on (instance) group_left () {query}"

    attached = total(CHOSEN.of("agent_probes", 'state="attached"'), ("instance",))
    alive = largest(CHOSEN.of("agent_up"), ("instance",))
    counted = total(CHOSEN.of("agent_unprobed_processes"), ("instance",))
    hidden = f"({zero_if(counted, alive)})"
    partial = largest(CHOSEN.of("agent_incomplete_processes"), ("instance",))
    libraries = largest(CHOSEN.of("agent_libraries"), ("instance",))
    return table(
        "Agent by agent",
        "One line an agent. `attach_mode` is how probes are attached: session is the cheapest, "
        "perf has the core functions only.",
        keys,
        [
            Column("libraries", of_each(libraries)),
            Column("probes", of_each(attached)),
            Column("not traced", of_each(hidden)),
            Column("not seen from the start", of_each(partial)),
        ],
        wrong="A node without an agent is no line here: compare with the nodes that have GPUs.",
        empty=NONE,
        links={"node": {"Node": way(Board.NODE, node=field("node"))}},
    )


def _unseen() -> list[Panel]:
    def by_reason(name: str) -> str:
        return zero_if(total(CHOSEN.of(name), ("reason",)), ALIVE)

    return [
        lines(
            "Processes not traced, by reason",
            "Their library has no probe. 0 while every process on a GPU is traced.",
            [Query(by_reason("agent_unprobed_processes"), "{{reason}}")],
            Unit.COUNT,
            width=8,
            empty=NONE,
        ),
        lines(
            "Processes without a known owner, by reason",
            'Their series carry `scope="unknown"` or "container". 0 while all are known.',
            [Query(by_reason("agent_unresolved_processes"), "{{reason}}")],
            Unit.COUNT,
            width=8,
            empty=NONE,
        ),
        lines(
            "Processes not seen from their start",
            "Their requested memory is absent, graphs and contexts are unknown until learned. "
            "Those that were there before the agent; the number only falls until it restarts.",
            [Query(_by_node("agent_incomplete_processes"), NODE)],
            Unit.COUNT,
            width=8,
            empty=NONE,
        ),
        lines(
            "Probes by state",
            "`attached`; `refused` for lack of a legal place; `failed` where Linux refused; "
            "`skipped` where the mode takes only core functions.",
            [Query(total(CHOSEN.of("agent_probes"), ("state",)), "{{state}}")],
            Unit.COUNT,
            empty=NONE,
            colors={"attached": "green", "failed": "red", "refused": "orange", "skipped": "text"},
        ),
        lines(
            "Driver libraries with probes",
            "Usually one a node; containers with a driver library of their own add one each.",
            [Query(_by_node("agent_libraries"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
    ]


def _lost() -> list[Panel]:
    def lost(name: str) -> str:
        return f"{CHOSEN.rate(name, by=('reason',))} > 0 or 0 * {ALIVE}"

    return [
        lines(
            "Lost updates, by reason",
            "Counts that are missing. `quota`: one container wanted more than its share. `*_full`: "
            "a map had no room. 0 while nothing is lost.",
            [Query(lost("agent_lost_updates_total"), "{{reason}}")],
            Unit.PER_SECOND,
            empty=NONE,
        ),
        lines(
            "Allocations not tracked, by reason",
            "They make requested memory a lower bound. 0 while all are tracked.",
            [Query(lost("agent_untracked_allocations_total"), "{{reason}}")],
            Unit.PER_SECOND,
            empty=NONE,
        ),
        lines(
            "Lost events, by reason",
            "Nothing counted is lost with them: it is rebuilt at the next tick. 0 while none is.",
            [Query(lost("agent_lost_events_total"), "{{reason}}")],
            Unit.PER_SECOND,
            empty=NONE,
        ),
        lines(
            "Calls seen twice, or left by a jump",
            "`seen twice`: reported by a second link on the same file, and not counted twice. "
            "`abandoned`: the thread jumped out of the call, so how long it took is not known.",
            [
                Query(CHOSEN.rate("agent_duplicate_hits_total"), "seen twice"),
                Query(CHOSEN.rate("agent_abandoned_calls_total"), "abandoned"),
            ],
            Unit.PER_SECOND,
            empty=NONE,
        ),
    ]


def _sources() -> list[Panel]:
    up = "1 while it answers."
    parts = ("agent_nvml_up", "agent_pods_up", "agent_entitlements_up", "agent_ready")
    shown = {name: name.removeprefix("agent_").removesuffix("_up") for name in parts}
    return [
        lines(
            "NVML, pods, entitlements, first scan",
            f"The share of agents to which each source answers. {up}",
            [Query(f"avg({CHOSEN.of(name)})", text) for name, text in shown.items()],
            Unit.SHARE,
            wrong="Entitlements stay 1 while the kubelet restarts: its last answer is kept.",
            empty=NONE,
        ),
        lines(
            "Duration of a tick",
            "Reading the maps and making the snapshot, of the last tick. Far below the second "
            "that it has.",
            [Query(_by_node("agent_tick_seconds"), NODE)],
            Unit.SECONDS,
            empty=NONE,
        ),
    ]


def _cost() -> list[Panel]:
    hits = f"rate({CHOSEN.of('agent_probe_hits_total')}[{RATE}])"
    cost = CHOSEN.of("agent_probe_cost_seconds")
    used = f"rate({CHOSEN.of('agent_cpu_seconds_total')}[{RATE}])"
    return [
        lines(
            "CPU of the agent",
            "Cores that the agent itself uses.",
            [Query(_named(used), NODE)],
            Unit.COUNT,
            width=8,
            axis="cores",
            empty=NONE,
        ),
        lines(
            "Time added to traced processes",
            "Threads' worth of time that the probes take from all traced processes of a node: "
            "hits times half of the cost of a call.",
            [Query(_named(f"({hits} * on (instance) {cost} / 2)"), NODE)],
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
            [Query(_named(hits), NODE)],
            Unit.PER_SECOND,
            width=8,
            empty=NONE,
        ),
        lines(
            "Memory of the agent",
            "Resident memory, BPF maps, and the history for diagnosis, which is part of the "
            "resident memory.",
            [
                Query(_by_node("agent_resident_memory_bytes"), "{{node}} resident"),
                Query(_by_node("agent_bpf_memory_bytes"), "{{node}} BPF maps"),
                Query(_by_node("agent_history_bytes"), "{{node}} history"),
            ],
            Unit.BYTES,
            empty=NONE,
        ),
        lines(
            "Cost of probes a call",
            "Time that entry and return add to one call, measured at start.",
            [Query(_by_node("agent_probe_cost_seconds"), NODE)],
            Unit.SECONDS,
            empty="Not measured.",
        ),
    ]


def _series() -> list[Panel]:
    return [
        lines(
            "Owners added up in `other`",
            "For lack of room in the setting `series.per_node`. 0 while each has its own series.",
            [Query(_by_node("agent_folded_owners"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
        lines(
            "Series left out",
            "One owner had too many on one device: the setting `series.per_owner`. 0 while all "
            "are exported.",
            [Query(_by_node("agent_series_dropped"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
    ]
