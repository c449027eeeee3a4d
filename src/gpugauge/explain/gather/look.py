"""Gathers all evidence of one pod, or of this node; what fails is noted, and the rest goes on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpugauge.attribution.api_server import ApiServer
from gpugauge.attribution.request_path import PodRequest
from gpugauge.attribution.request_path_kubelet import KubeletQuestions
from gpugauge.discovery.host import find_host_drivers, mapped_file_id
from gpugauge.errors import GpugaugeError, UnavailableError
from gpugauge.explain.checks.spec import GONE
from gpugauge.explain.evidence import ContainerSeen, Evidence
from gpugauge.explain.facts import looked_at
from gpugauge.explain.gather import api
from gpugauge.explain.gather.api import Found, reason
from gpugauge.explain.gather.container_files import container_seen
from gpugauge.explain.gather.driver_files import driver_facts
from gpugauge.explain.gather.kubelet_files import kubelet_facts
from gpugauge.explain.gather.linux_log import read_log
from gpugauge.explain.gather.node_processes import ProcessTable, process_table, services
from gpugauge.explain.gather.places import Places
from gpugauge.explain.gather.toolkit_files import toolkit_facts
from gpugauge.model.device import Inventory
from gpugauge.model.library import FileId
from gpugauge.model.snapshot import Snapshot
from gpugauge.vendors import CUDA

NODE_SOURCES = (
    "kubelet",
    "allocations",
    "allocatable",
    "toolkit",
    "driver",
    "log",
    "inventory",
    "services",
    "containers",
    "processes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """How to reach each source."""

    connect: Callable[[], ApiServer]
    places: Places = field(default_factory=Places)
    node_name: str = ""
    """The node this process runs on; "" for $NODE_NAME, else the host's name."""
    driver_roots: Iterable[str] = ("/",)
    inventory: Callable[[], Inventory] | None = None
    """NVML; None: this process does not ask it."""
    snapshot: Callable[[], Snapshot] | None = None
    """The agent's newest snapshot, or what raises why there is none."""
    local: bool = True
    """False: this process is on no node of the cluster; only the API server is asked."""


def look(wanted: str, sources: Sources) -> Evidence:
    """Return the evidence of a pod (`namespace/name`), or of this node for ""."""
    found = Found()
    here = sources.node_name or os.environ.get("NODE_NAME", "") or platform.node()
    target = _ask_api(found, sources, wanted, here)
    if not target and sources.local and found.missing.get("pod", GONE) != GONE:
        target = _known_here(sources, wanted, here)
    if not wanted or (target == here and sources.local):
        _read_node(found, sources, wanted)
    elif wanted and not target:
        why = "the pod is on no node yet" if "pod" in found.values else "the pod was not seen"
        found.lacks(why, *NODE_SOURCES, "node")
    else:
        found.lacks(f"it runs on {target}, whose agent was not asked", *NODE_SOURCES)
    inventory = found.values.get("inventory")
    return Evidence(
        pod_wanted=wanted,
        node_name=target,
        now_unix_ns=time.time_ns(),
        now_monotonic_ns=time.monotonic_ns(),
        simulated=bool(inventory and any(d.simulated for d in inventory.devices)),
        missing=found.missing,
        **found.values,
    )


def _ask_api(found: Found, sources: Sources, wanted: str, here: str) -> str:
    """Return the name of the node in question."""
    try:
        from gpugauge.attribution.request_path_reader import RequestPathReader

        server = sources.connect()
    except ImportError:
        api.no_api(found, UnavailableError("gpugauge[kubernetes] is not installed"))
        return "" if wanted else here
    except UnavailableError as error:
        api.no_api(found, error)
        return "" if wanted else here
    try:
        reader = RequestPathReader(server)
        target = api.gather_pod(found, reader, wanted) if wanted else here
        api.gather_cluster(found, reader, target)
        return target
    finally:
        server.close()


def _known_here(sources: Sources, wanted: str, here: str) -> str:
    """Return this node where its kubelet lists the pod that the API server would not show."""
    client = KubeletQuestions(sources.places.kubelet)
    try:
        listed = client.given()
    except GpugaugeError:
        return ""
    return here if any(f"{one.namespace}/{one.pod}" == wanted for one in listed) else ""


def _read_node(found: Found, sources: Sources, wanted: str) -> None:
    places = sources.places
    found.take("kubelet", lambda: kubelet_facts(places))
    _ask_kubelet(found, places)
    found.take("toolkit", lambda: toolkit_facts(places))
    found.take("driver", lambda: driver_facts(places, sources.driver_roots))
    found.take("log", lambda: read_log(f"{places.host('/dev')}/kmsg", places.boot_unix_ns))
    inventory = None
    if sources.inventory is None:
        found.lacks("NVML was not asked", "inventory")
    else:
        inventory = found.take("inventory", sources.inventory)
    table = found.take("services", lambda: process_table(places.proc))
    if table is not None:
        pods = found.values.get("node_pods")
        uids = None if pods is None else {p.uid for p in pods}
        found.values["services"] = services(table, inventory, uids)
        if wanted:
            _look_into(found, sources, table, found.values.get("pod"))
    else:
        found.lacks(found.missing["services"], "containers")
    _ask_agent(found, sources, wanted)


def _ask_kubelet(found: Found, places: Places) -> None:
    client = KubeletQuestions(places.kubelet)
    found.take("allocations", client.given)
    found.take("allocatable", client.could_give)


def _look_into(found: Found, sources: Sources, table: ProcessTable, pod: PodRequest | None) -> None:
    if pod is None:
        return
    hosts = _host_files(sources)
    seen: list[ContainerSeen] = []
    for container in pod.containers:
        pids = table.containers.get(container.container_id, [])
        alive = [pid for pid in pids if pid not in table.zombies]
        if container.container_id and alive:
            try:
                seen.append(container_seen(container.name, alive, sources.places, hosts))
            except GpugaugeError as error:
                found.missing["containers"] = reason(error)
    if seen or "containers" not in found.missing:
        found.values["containers"] = tuple(seen)


def _host_files(sources: Sources) -> dict[FileId, str]:
    files = {}
    for driver in find_host_drivers(CUDA, sources.driver_roots, sources.places.root):
        name = mapped_file_id(driver.path)
        if name is not None:
            files[name] = driver.version
    return files


def _ask_agent(found: Found, sources: Sources, wanted: str) -> None:
    if sources.snapshot is None:
        found.lacks("no agent was asked", "processes")
        return
    snapshot = found.take("processes", sources.snapshot)
    if snapshot is None:
        return
    evidence = Evidence(pod_wanted=wanted, processes=snapshot.processes, **_known(found))
    uuids = {one.uuid for one in looked_at(evidence)}
    found.values["processes"] = tuple(
        one
        for one in snapshot.processes
        if not wanted
        or f"{one.owner.namespace}/{one.owner.pod}" == wanted
        or any(place.gpu_uuid in uuids for place in one.devices)
    )


def _known(found: Found) -> dict[str, Any]:
    """Return what tells which devices the pod has."""
    sources = ("allocations", "inventory", "driver", "slices")
    return {name: found.values[name] for name in sources if name in found.values}
