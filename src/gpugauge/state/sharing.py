"""Contention: who shares a device."""

from __future__ import annotations

from collections.abc import Iterable

from gpugauge.model.device import Device
from gpugauge.model.process import Process
from gpugauge.model.snapshot import DeviceUse
from gpugauge.model.workload import UNKNOWN, Scope


def device_use(devices: Iterable[Device], processes: Iterable[Process]) -> tuple[DeviceUse, ...]:
    """Return the use of each device.

    A process that NVML lists has a context, traced or not. One that only says
    so itself is `claimed`, and never counted against others.
    """
    with_context: dict[str, set[int]] = {device.uuid: set() for device in devices}
    active: dict[str, set[int]] = {}
    claimed: dict[str, set[int]] = {}
    pods: dict[str, set[tuple[str, str]]] = {}
    for device in devices:
        for listed in device.processes or ():
            if listed.kind != "mps":
                with_context[device.uuid].add(listed.pid)
    for process in processes:
        if not process.alive:
            continue
        for use in process.devices:
            if use.gpu_uuid == UNKNOWN:
                continue
            if use.claimed:
                claimed.setdefault(use.gpu_uuid, set()).add(process.pid)
                continue
            if use.contexts or use.operations:
                with_context.setdefault(use.gpu_uuid, set()).add(process.pid)
            if use.active:
                active.setdefault(use.gpu_uuid, set()).add(process.pid)
            if process.owner.scope is Scope.POD:
                owner = (process.owner.namespace, process.owner.pod)
                pods.setdefault(use.gpu_uuid, set()).add(owner)
    return tuple(
        DeviceUse(
            gpu_uuid=uuid,
            processes_with_context=len(pids),
            processes_active=len(active.get(uuid, ())),
            processes_claimed=len(claimed.get(uuid, ())),
            pods=len(pods.get(uuid, ())),
        )
        for uuid, pids in sorted(with_context.items())
    )
