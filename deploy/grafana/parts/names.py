"""What holds across dashboards: uids, titles, colours, and the way from one to another."""

from __future__ import annotations

from enum import StrEnum

TAG = "gpugauge"

DCGM_DASHBOARD = "Oxed_c6Wz"
"""The uid of the dashboard that comes with dcgm-exporter (grafana.com 12239); the variable `dcgm`
of the node dashboard takes another one."""


class Board(StrEnum):
    """The dashboards, by uid."""

    CLUSTER = "gpugauge-cluster"
    WORKLOAD = "gpugauge-workload"
    POD = "gpugauge-pod"
    NODE = "gpugauge-node"
    AGENT = "gpugauge-agent"


TITLES = {
    Board.CLUSTER: "gpugauge / Cluster",
    Board.WORKLOAD: "gpugauge / Workload",
    Board.POD: "gpugauge / Pod",
    Board.NODE: "gpugauge / Node",
    Board.AGENT: "gpugauge / Agent",
}


class Unit(StrEnum):
    """Units as Grafana names them."""

    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "binBps"
    PER_SECOND = "ops"
    SHARE = "percentunit"
    COUNT = "short"
    MONEY = "none"
    PERCENT = "percent"
    WATT = "watt"
    CELSIUS = "celsius"


CAUSES = {
    "synchronize": "orange",
    "copy": "purple",
    "launch_queue": "red",
    "allocation": "yellow",
    "launch_other": "text",
}
STATES = {
    "host_waits": "orange",
    "gpu_waits": "blue",
    "overlapped": "green",
    "unobserved": "text",
}
DIRECTIONS = {
    "htod": "blue",
    "dtoh": "orange",
    "dtod": "green",
    "peer": "purple",
    "unknown": "text",
}
HOST = {
    "throttled": "red",
    "cpu": "orange",
    "io": "purple",
    "memory": "yellow",
}
SEVERITIES = {"critical": "red", "warning": "orange", "info": "blue"}


def way(board: Board | str, **variables: str) -> str:
    """Return the link to a dashboard that keeps data source, cluster and time.

    Args:
        board: Where it leads.
        variables: Values of variables there, mostly fields of the row that was clicked.
    """
    given = "".join(f"&var-{name}={value}" for name, value in variables.items())
    kept = "${datasource:queryparam}&${cluster:queryparam}"
    return f"/d/{board}?{kept}{given}&${{__url_time_range}}"


def field(name: str) -> str:
    """Return how a link names a column of the table row that was clicked."""
    return f"${{__data.fields.{name}}}"


def label(name: str) -> str:
    """Return how a link names a label of the line that was clicked."""
    return f"${{__field.labels.{name}}}"
