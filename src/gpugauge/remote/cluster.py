"""Where pods run, and which nodes have GPUs: asked of the API server through kubectl."""

from __future__ import annotations

import re
from typing import Any

from gpugauge.errors import SettingError, UnavailableError
from gpugauge.remote.kubectl import Kubectl
from gpugauge.remote.plain import table, text

ENDED = ("Succeeded", "Failed")
NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
GPU_RESOURCES = "nvidia.com/"


def checked(name: str, what: str) -> str:
    """Return a name that may stand in a path and in a command line.

    Raises:
        SettingError: it is no name.
    """
    if not NAME.fullmatch(name):
        raise SettingError(f"{name[:64]!r} is no name of a {what}.", "Check the spelling.")
    return name


def pods_path(namespace: str) -> str:
    """Return the path of the pods of a namespace, or of all for ""."""
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


def pod_node(item: Any) -> str:
    """Return the node on which a pod runs; "" for none, or where it has ended."""
    if text(item, "status", "phase") in ENDED:
        return ""
    node = text(item, "spec", "nodeName")
    return node if NAME.fullmatch(node) else ""


def nodes_of(kubectl: Kubectl, namespace: str) -> frozenset[str]:
    """Return the nodes on which pods of a namespace run.

    Raises:
        MissingRight: the user may not list them.
        UnavailableError: the API server does not answer.
    """
    listed = kubectl.items(pods_path(namespace))
    return frozenset(node for one in listed if (node := pod_node(one)))


def node_of(kubectl: Kubectl, namespace: str, pod: str) -> str:
    """Return the node of a pod.

    Raises:
        MissingRight: the user may not get it.
        UnavailableError: there is none, or it is on no node.
    """
    node = pod_node(kubectl.get(f"{pods_path(namespace)}/{pod}"))
    if not node:
        raise UnavailableError(
            f"The pod {namespace}/{pod} is on no node, or has ended.",
            f"`kubectl gpugauge explain {namespace}/{pod}` tells why.",
        )
    return node


def gpu_nodes(kubectl: Kubectl) -> frozenset[str]:
    """Return the nodes that have GPUs.

    Raises:
        MissingRight: the user may not list nodes.
        UnavailableError: the API server does not answer.
    """
    return frozenset(
        name
        for one in kubectl.items("/api/v1/nodes")
        if NAME.fullmatch(name := text(one, "metadata", "name")) and _has_gpus(one)
    )


def _has_gpus(item: Any) -> bool:
    capacity = table(item, "status", "capacity")
    return any(
        key.startswith(GPU_RESOURCES) and count not in ("0", "") for key, count in capacity.items()
    )
