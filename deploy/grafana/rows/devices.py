"""The table of GPUs: what each is, who is on it, what it costs."""

from __future__ import annotations

from deploy.grafana.parts.names import Board, Unit, field, way
from deploy.grafana.parts.panels import Panel
from deploy.grafana.parts.queries import Selection, largest, with_node
from deploy.grafana.parts.tables import Column, table

KEYS = ("node", "gpu", "model", "gpu_uuid")
IDLE = "node_gpu_uuid:gpugauge_device_idle:bool30m"
PRICE = "node_gpu_uuid:gpugauge_device_price_per_hour:max"


def known(chosen: Selection) -> str:
    """Return 1 for each device, with its node."""
    named = with_node(chosen.of("device_info"), chosen.only("cluster", "instance").of("agent_info"))
    return largest(named, KEYS)


def devices(chosen: Selection, *, height: int = 9) -> Panel:
    """Return one line a GPU."""
    of = known(chosen)

    def of_each(query: str) -> str:
        return f"{of} * on (gpu_uuid) group_left () {largest(query, ('gpu_uuid',))}"

    def value(name: str, *matchers: str) -> str:
        return of_each(chosen.of(name, *matchers))

    return table(
        "GPU by GPU",
        "One line a GPU or MIG instance. Pods and processes tell who shares it. Utilization is "
        "NVML's: something ran, not how much. Idle is 1 after half an hour without any work, 0 "
        "with work, and empty while that is not known. Price is that of the agent's price table.",
        KEYS,
        [
            Column("pods", value("device_pods")),
            Column("active processes", value("device_processes", 'state="active"')),
            Column("contexts of processes", value("device_processes", 'state="context"')),
            Column("utilization", value("device_utilization_ratio"), Unit.SHARE),
            Column("memory used", value("device_memory_used_bytes"), Unit.BYTES),
            Column("memory", value("device_memory_capacity_bytes"), Unit.BYTES),
            Column("idle", of_each(chosen.recorded(IDLE))),
            Column("price per hour", of_each(chosen.recorded(PRICE)), Unit.MONEY),
        ],
        height=height,
        wrong="Processes that could not be resolved to a pod are not counted as pods. Utilization "
        "is absent under MIG. Idle and price need the recording rules.",
        empty="NVML does not answer on any chosen node, or no agent runs.",
        links={
            "node": {"Node": way(Board.NODE, node=field("node"))},
            "gpu_uuid": {
                "Node, this GPU": way(Board.NODE, node=field("node"), gpu=field("gpu_uuid")),
                "Cluster, this GPU": way(Board.CLUSTER, gpu=field("gpu_uuid")),
            },
        },
        sort="pods",
    )
