"""The way to this node's cluster: whether there is one, which node this is, and connections."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpugauge.attribution.podresources import socket_path

if TYPE_CHECKING:
    from gpugauge.attribution.api_server import ApiServer

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How the API server is reached. Nothing is opened before `connect`."""

    node_name: str
    """As in `spec.nodeName`."""
    asked: bool
    """Whether Kubernetes is asked at all."""
    missing: str = ""
    """Why it is not, though it should be."""
    kubeconfig: str = ""
    service_account: str = ""

    def connect(self, read_seconds: float = 15.0, *, metadata_only: bool = False) -> ApiServer:
        """Return a new connection.

        Args:
            read_seconds: Longest silence inside one answer.
            metadata_only: Ask for the metadata of objects alone.

        Raises:
            UnavailableError: No configuration was found.
        """
        from gpugauge.attribution.api_server import ApiServer

        return ApiServer(
            kubeconfig=self.kubeconfig,
            service_account=self.service_account,
            read_seconds=read_seconds,
            metadata_only=metadata_only,
        )


def find_cluster(
    *,
    node_name: str = "",
    enabled: bool | None = None,
    kubeconfig: str = "",
    service_account: str = "",
    kubelet_path: str = "/var/lib/kubelet",
) -> Cluster:
    """Return the way to the cluster.

    Args:
        node_name: As in `spec.nodeName`; "" for $NODE_NAME, else the host's name.
        enabled: Whether to ask Kubernetes. None: where there is a way to it, a kubeconfig
            given here, a service account or a kubelet's socket.
        kubeconfig: Path of a kubeconfig; "" for the pod's service account.
        service_account: Directory of the account's token; "" for the usual one.
        kubelet_path: The kubelet's root directory.
    """
    ways = (Path(service_account or SERVICE_ACCOUNT, "token"), socket_path(kubelet_path))
    found = bool(kubeconfig) or any(way.exists() for way in ways)
    wanted = found if enabled is None else enabled
    missing = _missing_parts() if wanted else ""
    return Cluster(
        node_name=node_name or os.environ.get("NODE_NAME", "") or platform.node(),
        asked=wanted and not missing,
        missing=missing,
        kubeconfig=kubeconfig,
        service_account=service_account,
    )


def _missing_parts() -> str:
    absent = [name for name in ("lightkube", "h2") if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    return f"Pods are not watched: {' and '.join(absent)} missing. Install gpugauge[kubernetes]."
