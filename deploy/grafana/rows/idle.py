"""GPUs without work and what they cost: the row of the cluster dashboard."""

from __future__ import annotations

from deploy.grafana.parts.names import Unit
from deploy.grafana.parts.panels import Panel, Query, lines
from deploy.grafana.parts.queries import total
from deploy.grafana.parts.tables import Column, table
from deploy.grafana.rows.fleet import CHOSEN, KEYS, TO_WORKLOAD

NO_RULES = "No device is known yet, or the recording rules are not loaded."


def idle() -> list[Panel]:
    """Return how many, what they cost, and who holds them."""
    return [_count(), _cost(), _holders()]


def _count() -> Panel:
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
    keys = (*KEYS, "scope")
    idle = total(CHOSEN.recorded("namespace_workload:gpugauge_idle_devices:sum"), keys)
    cost = total(CHOSEN.recorded("namespace_workload:gpugauge_idle_cost_per_hour:sum"), keys)
    held = total(CHOSEN.of("memory_held_bytes"), keys)
    return table(
        "Who holds GPUs",
        "Workloads with a context, memory or a given device: how much of it is idle, and what "
        "that costs an hour.",
        keys,
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
