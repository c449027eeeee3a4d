"""What the agents do not see, and what they lost: rows of the agent dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import total, zero_if
from deploy.grafana.rows.agents import ALIVE, CHOSEN, NODE, NONE, by_node


def unseen() -> list[Panel]:
    """Return processes that are not traced, or only in part."""

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
            [Query(by_node("agent_incomplete_processes"), NODE)],
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
            [Query(by_node("agent_libraries"), NODE)],
            Unit.COUNT,
            empty=NONE,
        ),
    ]


def lost() -> list[Panel]:
    """Return counts that are missing."""

    def moving(name: str) -> str:
        return f"{CHOSEN.rate(name, by=('reason',))} > 0 or 0 * {ALIVE}"

    return [
        lines(
            "Lost updates, by reason",
            "Counts that are missing. `quota`: one container wanted more than its share. `*_full`: "
            "a map had no room. 0 while nothing is lost.",
            [Query(moving("agent_lost_updates_total"), "{{reason}}")],
            Unit.PER_SECOND,
            empty=NONE,
        ),
        lines(
            "Allocations not tracked, by reason",
            "They make requested memory a lower bound. 0 while all are tracked.",
            [Query(moving("agent_untracked_allocations_total"), "{{reason}}")],
            Unit.PER_SECOND,
            empty=NONE,
        ),
        lines(
            "Lost events, by reason",
            "Nothing counted is lost with them: it is rebuilt at the next tick. 0 while none is.",
            [Query(moving("agent_lost_events_total"), "{{reason}}")],
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
