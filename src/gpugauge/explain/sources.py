"""The sources of a command on the node, and of the agent itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpugauge.attribution.api_server import ApiServer
from gpugauge.codec.snapshot import load_snapshot
from gpugauge.errors import UnavailableError
from gpugauge.explain.gather.look import Sources
from gpugauge.explain.gather.places import host_places
from gpugauge.model.device import Inventory
from gpugauge.model.snapshot import Snapshot
from gpugauge.remote.page import ask
from gpugauge.settings import Settings
from gpugauge.units import NS_PER_SECOND
from gpugauge.vendors.nvml import NvmlInventory
from gpugauge.vendors.nvml_thread import NvmlThread

NVML_SECONDS = 5.0
READ_SECONDS = 5.0


def of_command(
    settings: Settings,
    *,
    kubeconfig: str = "",
    config: Callable[[], Mapping[str, Any]] | None = None,
    token: bytes | None = None,
    local: bool = True,
) -> Sources:
    """Return the sources of a command: NVML asked anew, the agent of this node over HTTP.

    Args:
        settings: Of the command.
        kubeconfig: File of the way to the API server; "" for the usual ones.
        config: Returns a kubeconfig as an object, in place of any file.
        token: Of the agent, where it wants one.
        local: Whether this process may be on the pod's node.
    """
    agent = f"http://127.0.0.1:{settings.listen.port}"
    return Sources(
        connect=lambda: ApiServer(
            kubeconfig=kubeconfig, config=config() if config else None, read_seconds=READ_SECONDS
        ),
        places=host_places(settings.kubernetes.kubelet_path),
        node_name=settings.node_name,
        driver_roots=settings.attach.driver_roots,
        inventory=ask_nvml,
        snapshot=lambda: load_snapshot(ask(agent, "/api/v1/snapshot", token)),
        local=local,
    )


def of_agent(settings: Settings, newest: Callable[[], Snapshot | None]) -> Sources:
    """Return the sources of the agent: its own snapshot stands for NVML and the agent."""

    def snapshot() -> Snapshot:
        found = newest()
        if found is None:
            raise UnavailableError("the agent has made no snapshot yet")
        return found

    def inventory() -> Inventory:
        found = snapshot()
        return Inventory(
            devices=found.devices,
            driver_version=found.driver_version,
            cuda_version=found.cuda_version,
            error=found.agent.nvml_error,
        )

    return Sources(
        connect=lambda: ApiServer(read_seconds=READ_SECONDS),
        places=host_places(settings.kubernetes.kubelet_path),
        node_name=settings.node_name,
        driver_roots=settings.attach.driver_roots,
        inventory=inventory,
        snapshot=snapshot,
    )


def ask_nvml() -> Inventory:
    """Return what NVML answers now, within a deadline."""
    nvml = NvmlInventory()
    thread = NvmlThread(nvml.read, nvml.release, int(NVML_SECONDS * NS_PER_SECOND))
    try:
        return thread.inventory()
    finally:
        thread.close()
