"""What the agent would have seen of a node in virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpugauge.model.abi import Cause, Family, Slot
from gpugauge.model.device import Device, DeviceProcess
from gpugauge.model.process import Memory, OpenCall, Operation, ProcessDevice
from gpugauge.model.process import Process as SeenProcess
from gpugauge.model.snapshot import (
    AgentHealth,
    DeviceUse,
    Entitlement,
    HostContext,
    OwnerTime,
    Series,
    Snapshot,
)
from gpugauge.model.workload import Owner, Scope
from tests.incidents.program import ALLOCATE_S, Process

if TYPE_CHECKING:
    from tests.incidents.node import Node, Pod

SECOND = 1_000_000_000
BEGAN_UNIX_NS = 1_800_000_000 * SECOND
MODEL = "NVIDIA H200"
RESOURCES = ("cpu", "io", "memory")
HOSTS_S = 5.0
"""How often quota, CPU time and pressure are read."""

HEALTH = AgentHealth(
    attach_mode="session", probes={"attached": 233}, libraries=1, losses={},
    unprobed_processes={}, incomplete_processes=0, hits=0, probe_cost_ns=1086.0, tick_ns=0,
    tick_late=0, bpf_memory_bytes=0, history_bytes=0, cpu_ns=0, rss_bytes=0, nvml_error="",
    pods_error="", unresolved={}, ready=True,
)  # fmt: skip


def snapshot_of(node: Node) -> Snapshot:
    """Return what the agent would have seen."""
    now_ns = int(node.clock_s * SECOND)
    by_pod: dict[tuple[str, int], list[Process]] = {}
    seen = []
    for process in node.processes:
        if not process.unprobed:
            by_pod.setdefault((process.pod, process.gpu), []).append(process)
            seen.append(_process(node, process, now_ns))
    series = []
    for name, pod in node.pods.items():
        for gpu in range(len(node.uuids)):
            live = by_pod.get((name, gpu), [])
            ended = [p for p in pod.ended.get(gpu, []) if not p.unprobed]
            if live or ended:
                series.append(_series(node, pod.owner, gpu, live, ended))
    return Snapshot(
        version=1, agent_version="0", node="node-1", simulated=True, number=node.number,
        time_unix_ns=BEGAN_UNIX_NS + int(node.elapsed_s * SECOND), time_monotonic_ns=now_ns,
        interval_ns=int(node.dt * SECOND) if node.number > 1 else 0,
        driver_version="580.159.04", cuda_version="13.0", linux_version="6.18",
        processes=tuple(seen),
        series=tuple(series),
        times=tuple(_times(node, name, pod) for name, pod in node.pods.items()),
        devices=tuple(_device(node, n) for n in range(len(node.uuids))) if node.nvml else (),
        device_use=tuple(
            DeviceUse(gpu_uuid=u, processes_with_context=0, processes_active=0,
                      processes_claimed=0, pods=0)
            for u in node.uuids
        ),
        hosts=_host_contexts(node),
        entitlements=tuple(_entitlements(node)) if node.kubelet else (),
        agent=HEALTH,
    )  # fmt: skip


def _device(node: Node, number: int) -> Device:
    here = [p for p in node.processes if p.gpu == number and p.alive]
    held = sum(p.held_bytes or 0 for p in here) + node.held_memory.get(number, 0)
    return Device(
        uuid=node.uuids[number], index=number, model=MODEL, pci_bus_id=f"0000:0{number}:00.0",
        memory_total_bytes=143_771_000_000, memory_used_bytes=held,
        memory_reserved_bytes=617_000_000, utilization_ratio=None, compute_mode="default",
        processes=tuple(DeviceProcess(p.pid, p.held_bytes) for p in here),
        mig_parent_uuid=node.mig_parent, simulated=True,
    )  # fmt: skip


def _host_contexts(node: Node) -> tuple[HostContext, ...]:
    """The CPU side is read every few seconds, and repeated between."""
    if node.clock_s - node.hosts_at >= HOSTS_S or node.dt >= HOSTS_S:
        node.hosts_at = node.clock_s
        node.hosts = tuple(_host(node, p) for p in node.pods.values() if p.has_cgroup)
    return node.hosts


def _host(node: Node, pod: Pod) -> HostContext:
    if pod.owner.scope is Scope.HOST:
        return HostContext(owner=pod.owner)
    return HostContext(
        owner=pod.owner, cpu_quota_cores=pod.quota_cores,
        cpu_throttled_ns=int(pod.throttled_s * SECOND), cpu_used_ns=int(pod.used_s * SECOND),
        pressure_ns={r: int(s * SECOND) for r, s in pod.stalled_s.items()},
    )  # fmt: skip


def _entitlements(node: Node) -> Iterable[Entitlement]:
    for pod in node.pods.values():
        if pod.owner.scope is Scope.POD:
            for gpu in pod.entitled:
                uuid = node.uuids[gpu]
                yield Entitlement(
                    owner=pod.owner, gpu_uuid=uuid, resource="nvidia.com/gpu", device_id=uuid
                )


def _times(node: Node, name: str, pod: Pod) -> OwnerTime:
    live = [p for p in node.processes if p.pod == name and not p.unprobed]
    pod.observed_s += node.dt * len(live)
    waits = sum(p.last.blocked_ratio for p in live) * node.dt
    pod.host_waits_s += waits
    observed, host = int(pod.observed_s * SECOND), int(pod.host_waits_s * SECOND)
    return OwnerTime(
        owner=pod.owner,
        observed_ns=observed,
        host_waits_ns=host,
        gpu_waits_ns=0,
        overlapped_ns=observed - host,
        unobserved_ns=0,
    )


def _process(node: Node, process: Process, now_ns: int) -> SeenProcess:
    operations, blocked, memory = _parts([process])
    device = ProcessDevice(
        gpu_uuid=node.uuids[process.gpu], operations=operations, blocked_ns=blocked,
        histograms={}, errors=_errors([process]),
        known_idle_ns=int(process.counters.idle * SECOND) if process.idle_known else None,
        graph_launch_nodes=int(process.counters.nodes),
        launch_threads=int(process.counters.threads), issue_ns=_issue_ns([process]),
        open_calls=_open(node, [process]), memory=memory,
        memory_held_bytes=process.held_bytes if node.nvml else None,
        context_bytes=process.context_bytes, contexts=1,
        active=process.last.busy_ratio > 0,
    )  # fmt: skip
    started_ns = int(process.started_s * SECOND)
    return SeenProcess(
        number=process.number, pid=process.pid, comm=process.command,
        owner=node.pods[process.pod].owner, cgroup_id=1, started_ns=started_ns,
        observed_ns=now_ns - started_ns, blocked_wall_ns=0, complete=process.complete,
        alive=process.alive, devices=(device,),
    )  # fmt: skip


def _series(
    node: Node, owner: Owner, gpu: int, live: list[Process], ended: list[Process]
) -> Series:
    everyone = live + ended
    operations, blocked, memory = _parts(everyone, live)
    idle = None
    if all(p.idle_known for p in everyone):
        idle = int(sum(p.counters.idle for p in everyone) * SECOND)
    held = [p.held_bytes for p in live if p.held_bytes is not None]
    return Series(
        owner=owner, gpu_uuid=node.uuids[gpu], operations=operations, blocked_ns=blocked,
        histograms={}, errors=_errors(everyone), known_idle_ns=idle,
        graph_launch_nodes=int(sum(p.counters.nodes for p in everyone)),
        graph_launches_unknown=0,
        launch_threads=int(sum(p.counters.threads for p in everyone)),
        issue_ns=_issue_ns(live), open_calls=_open(node, live),
        memory=memory if all(p.complete for p in live) else None,
        memory_held_bytes=sum(held) if held and node.nvml else None,
        contexts=len(live), processes=len(live),
        active_processes=sum(p.last.busy_ratio > 0 for p in live),
    )  # fmt: skip


def _open(node: Node, processes: list[Process]) -> dict[Cause, OpenCall]:
    ages, symbol = [], "cuStreamSynchronize"
    for process in processes:
        if process.hung_since_s is not None:
            ages.append(node.clock_s - process.hung_since_s)
            symbol = process.hung_symbol
        elif process.last.wait_s and node.rng.random() < process.last.blocked_ratio:
            ages.append(min(node.dt, process.last.wait_s) * node.rng.random())
    if not ages:
        return {}
    call = OpenCall(calls=len(ages), blocked_ns=int(sum(ages) * SECOND),
                    oldest_ns=int(max(ages) * SECOND), oldest_symbol=symbol)  # fmt: skip
    return {Cause.SYNCHRONIZE: call}


def _issue_ns(processes: list[Process]) -> int | None:
    known = [
        int(p.program.issue_s * p.slow.issue * SECOND) for p in processes if p.program.launches
    ]
    return sum(known) // len(known) if known else None


def _errors(processes: list[Process]) -> dict[tuple[Slot, int], int]:
    found: dict[tuple[Slot, int], int] = {}
    for process in processes:
        for (slot, code), count in process.errors.items():
            key = (Slot[slot], code)
            found[key] = found.get(key, 0) + count
    return found


def _parts(
    processes: list[Process], live: list[Process] | None = None
) -> tuple[dict[Slot, Operation], dict[Cause, int], dict[Family, Memory]]:
    total: dict[str, float] = {}
    for process in processes:
        for name, value in vars(process.counters).items():
            total[name] = total.get(name, 0.0) + value
    made = {name: int(value) for name, value in total.items()}

    def ns(name: str) -> int:
        return int(total[name] * SECOND)

    operations = {
        Slot.LAUNCH: Operation(made["launches"]),
        Slot.SYNCHRONIZE: Operation(made["syncs"], duration_ns=ns("blocked_sync")),
        Slot.COPY_HTOD: Operation(made["htod"], bytes=made["htod_bytes"]),
        Slot.COPY_DTOH: Operation(made["dtoh"], bytes=made["dtoh_bytes"]),
    }
    if made["graphs"]:
        operations[Slot.GRAPH_LAUNCH] = Operation(made["graphs"])
    if made["peers"]:
        operations[Slot.COPY_PEER] = Operation(made["peers"], bytes=made["peer_bytes"])
    if made["allocations"]:
        spent = int(total["allocations"] * ALLOCATE_S * SECOND)
        operations[Slot.ALLOCATE] = Operation(made["allocations"], duration_ns=spent * 3 // 4)
        operations[Slot.FREE] = Operation(made["allocations"], duration_ns=spent // 4)
    blocked = {
        Cause.SYNCHRONIZE: ns("blocked_sync"),
        Cause.COPY: ns("blocked_copy"),
        Cause.LAUNCH_QUEUE: ns("blocked_queue"),
        Cause.ALLOCATION: ns("blocked_allocation"),
    }
    holding = processes if live is None else live
    memory = {
        Family.DEVICE: Memory(
            requested_bytes=sum(p.requested_bytes for p in holding),
            peak_bytes=sum(p.requested_bytes for p in holding),
            allocations=made["allocations"] + 97 * len(processes),
            frees=made["allocations"],
            failures=sum(p.failures for p in processes),
            failed_bytes=max((p.failed_bytes for p in processes), default=0),
        )
    }
    return operations, blocked, memory
