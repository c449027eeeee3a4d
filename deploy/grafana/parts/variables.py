"""The variables of the dashboards, each with one definition."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from deploy.grafana.parts.names import DCGM_DASHBOARD
from deploy.grafana.parts.panels import SOURCE
from deploy.grafana.parts.queries import Selection, largest

EVERY = ".*"
"""What `All` stands for: also series without the label, such as processes of the host."""
OWNED = '{__name__=~"gpugauge_process_seconds_total|gpugauge_entitled_gpus", '
"""Whoever works on a GPU, or was given one and does not."""
COMPARED = ("5m", "30m", "1h", "6h", "1d", "7d")


def source() -> Any:
    """Return the choice of the Prometheus."""
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def cluster() -> Any:
    """Return the choice of the cluster; "" where Prometheus sets no such label."""
    return _query("cluster", "Cluster", "label_values(gpugauge_agent_info, cluster)")


def node() -> Any:
    """Return the choice of one node."""
    known = Selection(("cluster",)).of("agent_info")
    return _query("node", "Node", f"label_values({known}, node)")


def nodes() -> Any:
    """Return the choice of nodes."""
    return _several(node(), EVERY)


def instance() -> Any:
    """Return the hidden variable with the scrape targets of the chosen nodes.

    Only `gpugauge_agent_info` has the node's name; all others have the target's.
    """
    known = Selection(("cluster",)).of("agent_info", 'node=~"$node"')
    made = _query("instance", "", f"label_values({known}, instance)")
    return _several(made, "").hide(dashboard.VariableHide.HIDE_VARIABLE)


def namespace() -> Any:
    """Return the choice of one namespace."""
    known = OWNED + 'cluster=~"$cluster"}'
    return _query("namespace", "Namespace", f"label_values({known}, namespace)")


def namespaces() -> Any:
    """Return the choice of namespaces."""
    return _several(namespace(), EVERY)


def workload() -> Any:
    """Return the choice of one workload."""
    known = OWNED + 'cluster=~"$cluster", namespace=~"$namespace"}'
    return _query("workload", "Workload", f"label_values({known}, workload)")


def workloads() -> Any:
    """Return the choice of workloads."""
    return _several(workload(), EVERY)


def pods_of_workload() -> Any:
    """Return the choice of pods of the workload."""
    known = OWNED + 'cluster=~"$cluster", namespace=~"$namespace", workload=~"$workload"}'
    return _several(_query("pod", "Pod", f"label_values({known}, pod)"), EVERY)


def pod() -> Any:
    """Return the choice of one pod."""
    known = OWNED + 'cluster=~"$cluster", namespace=~"$namespace"}'
    return _query("pod", "Pod", f"label_values({known}, pod)")


def gpus(*variables: str) -> Any:
    """Return the choice of GPUs, shown by node, index and model.

    Args:
        variables: Those that it depends on. With a namespace only the GPUs that are used there.
    """
    chosen = Selection(variables)
    agents = largest(chosen.of("agent_info"), ("instance", "node"))
    named = f"{chosen.of('device_info')} * on (instance) group_left (node) {agents}"
    if "namespace" in variables:
        named += f" and on (gpu_uuid) {chosen.of('launches_total')}"
    shown = f'label_join({named}, "name", " ", "node", "gpu", "model")'
    made = _query("gpu", "GPU", f"query_result({shown})")
    return _several(made.regex('/gpu_uuid="(?<value>[^"]+)".*,name="(?<text>[^"]+)"/'), EVERY)


def compare() -> Any:
    """Return how far back the changes look."""
    first = dashboard.VariableOption(selected=True, text="1h", value="1h")
    made = build.CustomVariable("compare").label("Compare with").values(",".join(COMPARED))
    chosen = [
        dashboard.VariableOption(selected=each == "1h", text=each, value=each) for each in COMPARED
    ]
    return made.current(first).options(chosen)


def dcgm() -> Any:
    """Return the uid of the dashboard of dcgm-exporter."""
    shown = dashboard.VariableOption(selected=True, text=DCGM_DASHBOARD, value=DCGM_DASHBOARD)
    made = build.TextBoxVariable("dcgm").label("uid of dcgm-exporter's dashboard")
    return made.default_value(DCGM_DASHBOARD).current(shown)


def _query(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )


def _several(made: build.QueryVariable, every: str) -> build.QueryVariable:
    everything = dashboard.VariableOption(selected=True, text=["All"], value=["$__all"])
    made.multi(True).include_all(True).current(everything)
    return made.all_value(every) if every else made
