"""The dashboard of the agents themselves: do they see everything, and what do they cost?"""

from __future__ import annotations

from deploy.grafana.parts import variables
from deploy.grafana.parts.layout import Page, Row
from deploy.grafana.parts.names import Board, Unit, field, way
from deploy.grafana.parts.panels import Panel, number
from deploy.grafana.parts.queries import largest, total, zero_if
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows.agents import AGENTS, ALIVE, CHOSEN, NONE
from deploy.grafana.rows.footprint import cost, series
from deploy.grafana.rows.sources import sources, written
from deploy.grafana.rows.trust import lost, unseen


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
            Row("What is not seen", unseen()),
            Row("What was lost", lost()),
            Row("Sources", sources()),
            Row("Written to Kubernetes", written(), open=False),
            Row("Cost", cost()),
            Row("Series", series()),
        ],
    )


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
            "Probes switched off",
            "Agents whose probes somebody switched off: they count nothing.",
            f"sum({largest(CHOSEN.of('agent_probes_switched_off'), ('instance',))})",
            Unit.COUNT,
            steps=((None, "green"), (1, "orange")),
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
