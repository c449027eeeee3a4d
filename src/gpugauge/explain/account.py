"""Memory asked for beside memory held, and contexts: from what the agent and NVML saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import looked_at, pod_devices
from gpugauge.explain.report import ContextLine, DeviceMemory, FamilyMemory, MemoryAccount
from gpugauge.model.abi import Family
from gpugauge.model.process import HOST_FAMILIES, Memory, Process, ProcessDevice
from gpugauge.model.workload import Scope
from gpugauge.units import MIB, bytes_text

CHUNK_BYTES = 2 * MIB
"""The driver hands out device memory in chunks of this size; small allocations share one.
Measured on driver 580 (docs/validation.md)."""
_CHUNKED = (Family.DEVICE, Family.MANAGED, Family.ARRAY)
"""Of the others, `virtual` is asked for in whole chunks, and `pool` grows by its own rules."""


def _pod(process: Process) -> str:
    owner = process.owner
    return f"{owner.namespace}/{owner.pod}" if owner.scope is Scope.POD else ""


def _ours(evidence: Evidence) -> tuple[Process, ...]:
    return tuple(p for p in evidence.processes or () if p.alive)


def account(process: Process, device: ProcessDevice) -> MemoryAccount:
    """Return the split of one process on one device.

    held = context + requested + rounding + rest. What is not known is None, and is
    then part of the rest; where one of the terms above is not known, so is the rest.
    """
    families = tuple(
        FamilyMemory(
            family=family.name.lower(),
            requested_bytes=one.requested_bytes,
            peak_bytes=one.peak_bytes,
        )
        for family, one in sorted((device.memory or {}).items())
        if one.requested_bytes or one.peak_bytes
    )
    on_device = [one for f, one in (device.memory or {}).items() if f not in HOST_FAMILIES]
    known = device.memory is not None
    requested = sum(one.requested_bytes for one in on_device) if known else None
    held, context = device.memory_held_bytes, device.context_bytes
    rounding = rounding_bytes(device.memory or {}) if known else None
    rest = None
    if held is not None and requested is not None and context is not None:
        rest = held - requested - context - (rounding or 0)
    return MemoryAccount(
        pid=process.pid,
        command=process.comm,
        pod=_pod(process),
        gpu_uuid=device.gpu_uuid,
        families=families,
        requested_bytes=requested,
        peak_bytes=sum(one.peak_bytes for one in on_device) if known else None,
        held_bytes=held,
        context_bytes=context,
        rounding_bytes=rounding,
        rest_bytes=rest,
        notes=tuple(_notes(device)),
    )


def rounding_bytes(memory: Mapping[Family, Memory]) -> int | None:
    """Return what rounding up to chunks adds to the live allocations.

    None where a family has several: only their sum is kept, not each one's size.
    """
    total = 0
    for family in _CHUNKED:
        one = memory.get(family, Memory())
        live = one.allocations - one.frees
        if live > 1:
            return None
        if live == 1:
            total += -one.requested_bytes % CHUNK_BYTES
    return total


def _at_least(memory: Mapping[Family, Memory]) -> int:
    """Return what rounding adds at least: that of all live allocations as if they were one."""
    return sum(-memory[f].requested_bytes % CHUNK_BYTES for f in _CHUNKED if f in memory)


def _notes(device: ProcessDevice) -> list[str]:
    notes = []
    if device.memory_held_bytes is None:
        notes.append("NVML gives no figure for it")
    if device.memory is None:
        notes.append("it ran before the agent: what it requested before is not known")
    elif not device.memory_complete:
        notes.append("some allocations were not tracked: requested is a lower bound")
    if device.context_bytes is None:
        notes.append("its context was not seen to open: its size is part of the difference")
    managed = (device.memory or {}).get(Family.MANAGED)
    if managed and managed.requested_bytes:
        notes.append("managed memory is held only where it is resident")
    if device.memory is not None and rounding_bytes(device.memory) is None:
        least = _at_least(device.memory)
        more = f", {bytes_text(least)} or more" if least else ""
        notes.append(f"rounding to chunks of 2 MiB is in the rest{more}")
    return notes


def pod_memory(accounts: Iterable[MemoryAccount]) -> tuple[MemoryAccount, ...]:
    """Return the sums of pods that have several processes on a device; unknown stays unknown."""
    groups: dict[tuple[str, str], list[MemoryAccount]] = {}
    for one in accounts:
        if one.pod:
            groups.setdefault((one.pod, one.gpu_uuid), []).append(one)
    return tuple(
        MemoryAccount(
            pid=0,
            command="",
            pod=pod,
            gpu_uuid=uuid,
            requested_bytes=_sum(one.requested_bytes for one in group),
            peak_bytes=_sum(one.peak_bytes for one in group),
            held_bytes=_sum(one.held_bytes for one in group),
            context_bytes=_sum(one.context_bytes for one in group),
            rounding_bytes=_sum(one.rounding_bytes for one in group),
            rest_bytes=_sum(one.rest_bytes for one in group),
            notes=("the peak is the sum of peaks: an upper bound",),
        )
        for (pod, uuid), group in sorted(groups.items())
        if len(group) > 1
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


def process_memory(evidence: Evidence) -> tuple[MemoryAccount, ...]:
    """Return the accounts of the pod's processes, or of all on the node; and what is left over."""
    left = _left_over(evidence)
    pods = {p.pid: _pod(p) for p in _ours(evidence)}
    accounts = [
        account(p, d)
        for p in _ours(evidence)
        for d in p.devices
        if not evidence.pod_wanted or _pod(p) == evidence.pod_wanted or p.pid in left
    ]
    known = {(one.pid, one.gpu_uuid) for one in accounts}
    accounts += [
        MemoryAccount(
            pid=one.pid,
            command="",
            pod=pods.get(one.pid, ""),
            gpu_uuid=device.uuid,
            held_bytes=one.memory_held_bytes,
            notes=() if one.pid in left else ("not traced: NVML alone knows it",),
        )
        for device in looked_at(evidence)
        for one in device.processes or ()
        if (one.pid, device.uuid) not in known and (not evidence.pod_wanted or one.pid in left)
    ]
    told = [
        replace(one, dead=True, notes=(f"left over: {left[one.pid]}", *one.notes))
        if one.pid in left
        else one
        for one in accounts
    ]
    return (*told, *pod_memory(told))


def _left_over(evidence: Evidence) -> dict[int, str]:
    """Return why memory that NVML lists belongs to nobody any more, by pid."""
    services = evidence.services
    if services is None:
        return {}
    listed = {p.pid for d in looked_at(evidence) for p in d.processes or ()}
    gone = dict.fromkeys(listed - set(services.alive), "no such process lives")
    return {**dict.fromkeys(listed & set(services.cgroup_gone), "its pod is gone"), **gone}


def device_memory(evidence: Evidence) -> tuple[DeviceMemory, ...]:
    """Return the devices in question as a whole."""
    devices = looked_at(evidence) if not evidence.pod_wanted else pod_devices(evidence)
    found = []
    for one in devices:
        held = [p.memory_held_bytes for p in one.processes or ()]
        whole = one.processes is not None and None not in held
        found.append(
            DeviceMemory(
                gpu_uuid=one.uuid,
                model=one.model,
                total_bytes=one.memory_total_bytes,
                used_bytes=one.memory_used_bytes,
                reserved_bytes=one.memory_reserved_bytes,
                held_bytes=sum(h for h in held if h is not None) if whole else None,
                compute_mode=one.compute_mode,
            )
        )
    return tuple(found)


def contexts(evidence: Evidence) -> tuple[ContextLine, ...]:
    """Return who has contexts on the devices in question, how many and since when."""
    uuids = {d.uuid for d in looked_at(evidence)}
    found = []
    for process in _ours(evidence):
        for device in process.devices:
            mine = _pod(process) == evidence.pod_wanted
            if not device.contexts or not (mine or device.gpu_uuid in uuids):
                continue
            opened = [
                evidence.now_monotonic_ns - one.created_ns
                for one in process.contexts
                if one.gpu_uuid == device.gpu_uuid and one.created_ns
            ]
            found.append(
                ContextLine(
                    pid=process.pid,
                    command=process.comm,
                    pod=_pod(process),
                    gpu_uuid=device.gpu_uuid,
                    contexts=device.contexts,
                    oldest_ns=max(opened, default=None),
                    newest_ns=min(opened, default=None),
                )
            )
    return tuple(found)
