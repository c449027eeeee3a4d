"""Did the program open a context, on the right device, with memory to work in?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.explain.check import NotSeenError, broken, check, need, ok, warning
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import (
    asking,
    errors,
    given_uuids,
    looked_at,
    pod_processes,
    running,
    wanted,
)
from gpugauge.explain.report import Answer, Layer
from gpugauge.model.device import Device
from gpugauge.model.workload import UNKNOWN, Scope
from gpugauge.units import MIB, bytes_text

BUSY = 46
"""cuda.h: CUDA_ERROR_DEVICE_UNAVAILABLE."""
OUT_OF_MEMORY = 2
SIGBUS_EXIT = 135
"""128 + SIGBUS: a write to a full /dev/shm ends so."""
DEFAULT_SHM = 64 * MIB
FULL = 0.9


@check(Layer.PROCESS, 43)
def exits(e: Evidence) -> Iterator[Answer]:
    """The containers stay up."""
    pod = wanted(e)
    for one in pod.containers:
        crashed = one.reason == "CrashLoopBackOff"
        ended = one.state == "terminated" and one.exit_code not in (0, None)
        if one.kind != "app" or not (crashed or ended):
            continue
        told = one.message if ended else one.last_message
        shm = one.exit_code == SIGBUS_EXIT and not one.shm_mounted
        how = f"exit code {one.exit_code}" if ended else f"{one.restarts} restarts"
        yield broken(
            f"container {one.name} ended: {one.reason or how} ({how})"
            + (f": {told}" if told and not crashed else "")
            + ("; a bus error, and /dev/shm has the default 64 MiB" if shm else ""),
            "a program that runs" if not shm else "a larger /dev/shm",
            "mount an emptyDir of medium Memory at /dev/shm"
            if shm
            else f"kubectl -n {pod.namespace} logs {pod.name} -c {one.name} --previous",
            case=43 if shm else 0,
            guess=shm,
        )


@check(Layer.PROCESS, 43)
def shared_memory(e: Evidence) -> Iterator[Answer]:
    """Shared memory is not full: data loaders and NCCL live in it."""
    for told, seen in running(e):
        total, used = seen.shm_total_bytes, seen.shm_used_bytes
        if total is None or used is None or not total:
            continue
        if used >= FULL * total:
            found = broken if total <= DEFAULT_SHM else warning
            yield found(
                f"shared memory (/dev/shm) of {told.name} is full: "
                f"{bytes_text(used)} of {bytes_text(total)}",
                "room for data loaders and NCCL in /dev/shm",
                "mount an emptyDir of medium Memory at /dev/shm",
                case=43,
            )


@check(Layer.PROCESS, 34)
def context(e: Evidence) -> Iterator[Answer]:
    """A process of the pod has opened a context, on a device that the pod was given."""
    asking(e)
    running(e)
    need(e.processes, e, "processes")
    mine = [p for p in pod_processes(e) if p.alive]
    used = [(p, d) for p in mine for d in p.devices if d.contexts]
    if not used:
        started = "has opened no context yet" if mine else "has called CUDA yet"
        raise NotSeenError(f"no process of it {started}")
    allowed = given_uuids(e)
    for process, device in used[:4]:
        name = f"pid {process.pid} ({process.comm})"
        if allowed and device.gpu_uuid not in allowed and device.gpu_uuid != UNKNOWN:
            parents = {d.uuid: d.mig_parent_uuid for d in looked_at(e)}
            if parents.get(device.gpu_uuid) not in allowed:
                yield warning(
                    f"{name} has a context on {device.gpu_uuid}, which the pod was not given",
                    f"contexts on {', '.join(sorted(allowed))}",
                    "look for NVIDIA_VISIBLE_DEVICES=all or a privileged container",
                    case=34,
                )
                continue
        many = f"{device.contexts} contexts" if device.contexts > 1 else "a context"
        yield ok(f"{name} has {many} on {device.gpu_uuid}")


@check(Layer.PROCESS, 42, node=True)
def compute_mode(e: Evidence) -> Iterator[Answer]:
    """A device in exclusive mode is not held by somebody else."""
    mine = {p.pid for p in pod_processes(e)}
    mine |= {pid for c in e.containers or () for pid in c.pids}
    refused = errors(pod_processes(e)).get(BUSY, 0)
    by_mps = e.services is not None and (e.services.mps_control or e.services.mps_server)
    for device in looked_at(e):
        mode = device.compute_mode
        if mode == "prohibited":
            yield broken(
                f"{device.uuid} is in compute mode prohibited",
                "compute mode default",
                f"nvidia-smi -i {device.index} -c DEFAULT",
                case=42,
            )
        elif mode in ("exclusive_process", "exclusive_thread") and not by_mps:
            users = {p.pid for p in device.processes or () if p.kind != "graphics"}
            others = sorted(users - mine)
            if others and e.pod_wanted and (refused or not users & mine):
                yield broken(
                    f"{device.uuid} is in compute mode {mode} and pid {others[0]} has it"
                    + (f"; {refused} CUDA calls answered 46" if refused else ""),
                    "compute mode default, or MPS, where processes share a device",
                    f"nvidia-smi -i {device.index} -c DEFAULT; ps -p {others[0]}",
                    case=42,
                )


@check(Layer.PROCESS, 21, 45)
def memory(e: Evidence) -> Iterator[Answer]:
    """No allocation failed; where one did, who holds the memory."""
    mine = pod_processes(e)
    failed = [
        (p, d)
        for p in mine
        for d in p.devices
        if any(m.failures for m in (d.memory or {}).values())
    ]
    if not failed and not errors(mine).get(OUT_OF_MEMORY):
        return
    pairs = failed or [(p, d) for p in mine for d in p.devices]
    process, place = pairs[0]
    device = next((d for d in looked_at(e) if d.uuid == place.gpu_uuid), None)
    name = f"pid {process.pid} ({process.comm})"
    own, others, pods = _holders(e, device)
    total = device.memory_total_bytes if device else None
    if others > own and pods:
        yield broken(
            f"{name} could not allocate: other pods ({', '.join(pods[:2])}) hold "
            f"{bytes_text(others)}"
            + (f" of {bytes_text(total)}" if total else "")
            + f", it holds {bytes_text(own)}",
            "memory limits between those who share a device: MIG, or MPS with limits",
            "sudo gpugauge explain --node; MIG, MPS limits, or fewer replicas a device",
            case=21,
        )
        return
    requested = sum(m.requested_bytes for m in (place.memory or {}).values())
    yield broken(
        f"{name} could not allocate: it has requested {bytes_text(requested)} and holds "
        f"{bytes_text(own)}" + (f" of {bytes_text(total)}" if total else ""),
        "room beside what the allocator caches, the context and 2 MiB chunks",
        "smaller batches, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        case=45,
    )


def _holders(e: Evidence, device: Device | None) -> tuple[int, int, list[str]]:
    """Return bytes that the pod holds on a device, that others do, and those pods' names."""
    pod = wanted(e)
    owners = {p.pid: p.owner for p in e.processes or ()}
    own = others = 0
    pods = set()
    for one in (device.processes if device else None) or ():
        owner = owners.get(one.pid)
        held = one.memory_held_bytes or 0
        if owner and (owner.namespace, owner.pod) == (pod.namespace, pod.name):
            own += held
        else:
            others += held
            if owner and owner.scope is Scope.POD:
                pods.add(f"{owner.namespace}/{owner.pod}")
    return own, others, sorted(pods)


@check(Layer.PROCESS, 44, node=True)
def leftovers(e: Evidence) -> Iterator[Answer]:
    """No memory is held for a process that is gone."""
    devices = looked_at(e)
    if not any(d.processes for d in devices):
        return
    services = need(e.services, e, "services")
    owners = {p.pid: p.owner for p in e.processes or () if p.owner.scope is Scope.POD}
    for device in devices:
        for one in device.processes or ():
            how = ""
            if one.pid in services.zombies:
                how = "is a zombie"
            elif one.pid not in services.alive:
                how = "is gone"
            elif one.pid in services.cgroup_gone:
                owner = owners.get(one.pid)
                name = f" {owner.namespace}/{owner.pod}" if owner else ""
                how = f"runs on after its pod{name} is gone"
            if how:
                held = one.memory_held_bytes
                amount = "memory" if held is None else bytes_text(held)
                found = warning if e.pod_wanted else broken
                yield found(
                    f"{amount} of {device.uuid} is held for pid {one.pid}, which {how}",
                    "memory given back when a process ends",
                    f"ps -p {one.pid}; kill what is left, or nvidia-smi --gpu-reset "
                    f"-i {device.index}",
                    case=44,
                )


CHECKS = (exits, shared_memory, context, compute_mode, memory, leftovers)
