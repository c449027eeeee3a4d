"""One pass over /proc: which process is in which container, and the driver's own services."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field

from gpugauge.attribution.process_cgroup import process_cgroup
from gpugauge.errors import UnavailableError
from gpugauge.explain.evidence import NodeProcesses
from gpugauge.explain.gather.places import folder, text
from gpugauge.model.device import Inventory

INIT_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the first pid namespace: PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h."""
PIDS_LIMIT = 65_536
FABRIC_MANAGER = "nv-fabricmanager"
MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_SERVER = "nvidia-cuda-mps-server"
COMM_LENGTH = 15
"""Linux cuts a command's name there."""


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The processes of the node at one moment."""

    pids: frozenset[int]
    commands: frozenset[str]
    zombies: frozenset[int]
    containers: dict[str, list[int]] = field(default_factory=dict)
    """Pids by container id, lowest first."""
    pods: dict[int, str] = field(default_factory=dict)
    """Pod UID by pid, from the cgroup."""


def process_table(proc: str) -> ProcessTable:
    """Read /proc once.

    Raises:
        UnavailableError: it shows another pid namespace than the host's, or nothing.
    """
    if proc == "/proc" and not _sees_host():
        raise UnavailableError("this process is not in the host's pid namespace (hostPID)")
    names = folder(proc)
    if names is None:
        raise UnavailableError(f"{proc} cannot be read")
    pids = sorted(int(n) for n in names if n.isdecimal() and len(n) < 10)[:PIDS_LIMIT]
    commands, zombies = set(), set()
    containers: dict[str, list[int]] = {}
    pods: dict[int, str] = {}
    for pid in pids:
        name, state = _name_and_state(text(f"{proc}/{pid}/stat", 4_096))
        commands.add(name)
        if state in ("Z", "X"):
            zombies.add(pid)
        found = process_cgroup(pid, proc=proc)
        if found is not None:
            for one in found.identity.container_ids:
                containers.setdefault(one, []).append(pid)
            if found.identity.pod_uid:
                pods[pid] = found.identity.pod_uid
    return ProcessTable(frozenset(pids), frozenset(commands), frozenset(zombies), containers, pods)


def services(
    table: ProcessTable, inventory: Inventory | None, pod_uids: Collection[str] | None
) -> NodeProcesses:
    """Return the driver's services, and which of NVML's processes are left over.

    Args:
        table: The processes.
        inventory: What NVML lists; None: nothing is judged.
        pod_uids: Of the pods that live on this node; None: not known, then no cgroup is judged.
    """
    listed = {p.pid for d in (inventory.devices if inventory else ()) for p in d.processes or ()}
    gone = set()
    if pod_uids is not None:
        # A static pod's cgroup has a hash without dashes, which is nobody's UID.
        gone = {
            pid
            for pid in listed
            if "-" in table.pods.get(pid, "") and table.pods[pid] not in pod_uids
        }
    return NodeProcesses(
        fabric_manager=FABRIC_MANAGER[:COMM_LENGTH] in table.commands,
        mps_control=MPS_CONTROL[:COMM_LENGTH] in table.commands,
        mps_server=MPS_SERVER[:COMM_LENGTH] in table.commands,
        alive=tuple(sorted(listed & table.pids - table.zombies)),
        zombies=tuple(sorted(listed & table.zombies)),
        cgroup_gone=tuple(sorted(gone)),
    )


def _sees_host() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == INIT_PID_NAMESPACE  # noqa: PTH116
    except OSError:
        return False


def _name_and_state(stat: str) -> tuple[str, str]:
    """Return the command and the state in /proc/PID/stat; the name may hold brackets."""
    inside = stat.partition("(")[2].rpartition(")")
    return inside[0], inside[2].strip()[:1]
