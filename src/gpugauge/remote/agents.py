"""The agents' pods, as the API server lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpugauge.remote.cluster import NAME, pod_node, pods_path
from gpugauge.remote.kubectl import Kubectl
from gpugauge.remote.plain import at, entries, text

LABEL = "app.kubernetes.io/name=gpugauge"
"""On every pod of the agent."""
PORT_NAME = "metrics"
PORT = 9836


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPod:
    """The pod of one node's agent."""

    node: str
    namespace: str
    name: str
    port: int = PORT
    why_not_ready: str = ""
    """The reason that the kubelet gives, or the phase; "" where it is ready."""


def find(kubectl: Kubectl, *, node: str = "", namespace: str = "") -> dict[str, AgentPod]:
    """Return the agents by their node; of several on one node the one that is ready.

    Args:
        kubectl: The way to the cluster.
        node: Only this one.
        namespace: Where agents run; "" for all namespaces.

    Raises:
        MissingRight: the user may not list them.
        UnavailableError: the API server does not answer.
    """
    params = {"labelSelector": LABEL}
    if node:
        params["fieldSelector"] = f"spec.nodeName={node}"
    found: dict[str, AgentPod] = {}
    for one in filter(None, map(_agent, kubectl.items(pods_path(namespace), **params))):
        had = found.get(one.node)
        if had is None or (had.why_not_ready and not one.why_not_ready):
            found[one.node] = one
    return dict(sorted(found.items()))


def _agent(item: Any) -> AgentPod | None:
    node = pod_node(item)
    name, namespace = text(item, "metadata", "name"), text(item, "metadata", "namespace")
    # Names become words of a command line: nothing else than names may.
    if not node or not NAME.fullmatch(name) or not NAME.fullmatch(namespace):
        return None
    if text(item, "metadata", "deletionTimestamp"):
        return None
    return AgentPod(
        node=node,
        namespace=namespace,
        name=name,
        port=_port(item),
        why_not_ready=_why_not_ready(item),
    )


def _port(item: Any) -> int:
    for container in entries(item, "spec", "containers"):
        for port in entries(container, "ports"):
            number = at(port, "containerPort")
            if text(port, "name") == PORT_NAME and type(number) is int and 0 < number < 1 << 16:
                return number
    return PORT


def _why_not_ready(item: Any) -> str:
    for condition in entries(item, "status", "conditions"):
        if text(condition, "type") == "Ready" and text(condition, "status") == "True":
            return ""
    for status in entries(item, "status", "containerStatuses"):
        for state in ("waiting", "terminated"):
            reason = text(status, "state", state, "reason")
            if reason:
                return reason[:64]
    return text(item, "status", "phase")[:64] or "unknown"
