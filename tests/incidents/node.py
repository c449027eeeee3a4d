"""A node with GPUs and processes in virtual time, and its snapshots.

It knows nothing of the diagnosis: it makes what the agent would have seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

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
from gpugauge.model.workload import HOST, Owner, Scope
from tests.incidents.program import ALLOCATE_S, Process, Program, advance

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


@dataclass
class Pod:
    """The CPU side of a pod."""

    owner: Owner
    quota_cores: float | None = None
    throttled_s: float = 0.0
    used_s: float = 0.0
    stalled_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))
    pressure: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RESOURCES, 0.0))
    """Stalled time a second, from outside."""
    base_pressure: float = 0.01
    has_cgroup: bool = True
    observed_s: float = 0.0
    host_waits_s: float = 0.0
    entitled: tuple[int, ...] = ()
    ended: dict[int, list[Process]] = field(default_factory=dict)


class Node:
    """GPUs, pods, processes, and a clock."""

    def __init__(self, rng: random.Random, *, gpus: int = 1, dt: float = 1.0) -> None:
        self.rng = rng
        self.dt = dt
        self.clock_s = rng.uniform(1000, 90_000)
        self.began_s = self.clock_s
        self.number = 0
        self.uuids = [f"GPU-{rng.getrandbits(64):016x}-{n}" for n in range(gpus)]
        self.pods: dict[str, Pod] = {}
        self.processes: list[Process] = []
        self.contention: dict[tuple[int, int], float] = {}
        """How much one process slows another, by their numbers, while it is busy."""
        self.default_contention = 1.0
        self._numbers = iter(range(1, 100_000))
        self._pids = iter(range(rng.randrange(2000, 20_000), 10_000_000))
        self.nvml = True
        self.kubelet = True
        self.mig_parent = ""
        self.held_memory: dict[int, int] = {}
        self._hosts_at = float("-inf")
        self._hosts: tuple[HostContext, ...] = ()

    # ---- who is there ----------------------------------------------------------

    def pod(self, name: str, **given: object) -> Pod:
        """Add a pod; a name of `host` is the host itself."""
        if name == "host":
            owner = HOST
        elif name.startswith("container-"):
            owner = Owner(Scope.CONTAINER, container=name, container_id=name * 3)
        else:
            owner = Owner(
                Scope.POD, namespace="ml", pod=name, container="main",
                workload=name.rsplit("-", 1)[0], workload_kind="StatefulSet", pod_uid=f"u-{name}",
            )  # fmt: skip
        self.pods[name] = made = Pod(owner, **given)  # type: ignore[arg-type]
        return made

    def start(self, pod: str, program: Program, gpu: int = 0, **given: object) -> Process:
        """Start a process in a pod, which is made if need be."""
        entitle = given.pop("entitle", True)
        made = self.pods.get(pod) or self.pod(pod)
        if entitle and gpu not in made.entitled:
            made.entitled += (gpu,)
        process = Process(
            next(self._numbers), next(self._pids), pod, gpu, program,
            given.pop("started_s", self.clock_s), **given,  # type: ignore[arg-type]
        )  # fmt: skip
        self.processes.append(process)
        return process

    def end(self, process: Process) -> None:
        """End a process; its counts stay with its pod."""
        process.alive = False

    @property
    def elapsed_s(self) -> float:
        """Virtual time since the beginning."""
        return self.clock_s - self.began_s

    # ---- time ------------------------------------------------------------------

    def tick(self) -> Snapshot:
        """Let dt seconds pass, and return what is seen then."""
        dt = self.dt
        self.clock_s += dt
        self.number += 1
        busy = {p.number: p.last.busy_ratio for p in self.processes if p.alive}
        cores: dict[str, float] = {}
        for process in self.processes:
            if process.alive:
                self._run(process, busy, dt)
                cores[process.pod] = cores.get(process.pod, 0.0) + process.last.cpu_cores_wanted
        for name, pod in self.pods.items():
            self._run_pod(pod, cores.get(name, 0.0), dt)
        snapshot = self._snapshot()
        for process in [p for p in self.processes if not p.alive]:
            self.pods[process.pod].ended.setdefault(process.gpu, []).append(process)
            self.processes.remove(process)
        return snapshot

    def _run(self, process: Process, busy: dict[int, float], dt: float) -> None:
        if process.hung_since_s is not None or process.paused:
            process.last.busy_ratio = process.last.cpu_cores_wanted = 0.0
            if process.paused:
                process.counters.idle += dt
            return
        others = 0.0
        for other in self.processes:
            if other is not process and other.alive and other.gpu == process.gpu:
                key = (other.number, process.number)
                weight = self.contention.get(key, self.default_contention)
                others += weight * busy.get(other.number, 0.0)
        slow = process.slow
        pod = self.pods[process.pod]
        factor = 1.0
        if pod.quota_cores is not None and process.last.cpu_cores_wanted:
            factor = getattr(pod, "slowdown", 1.0)
        before = (slow.gpu, slow.host, slow.loader)
        slow.gpu *= 1 + others
        slow.host *= factor
        slow.loader *= factor
        process.last = advance(process.program, process.counters, dt, slow, self.rng)
        slow.gpu, slow.host, slow.loader = before

    def _run_pod(self, pod: Pod, wanted: float, dt: float) -> None:
        # What it would use unthrottled is measured at the speed it has: scale it back up.
        slowdown = getattr(pod, "slowdown", 1.0)
        used = wanted
        if pod.quota_cores is not None:
            free = wanted * slowdown
            slowdown += 0.5 * (max(1.0, free / pod.quota_cores) - slowdown)
            used = min(wanted, pod.quota_cores)
            if slowdown > 1.02:
                pod.throttled_s += (1 - 1 / slowdown) * dt * self.rng.uniform(0.9, 1.1)
            pod.slowdown = slowdown  # type: ignore[attr-defined]
        else:
            pod.slowdown = 1.0  # type: ignore[attr-defined]
        pod.used_s += used * dt * self.rng.uniform(0.98, 1.02)
        for resource in RESOURCES:
            stall = min(1.0, pod.base_pressure * self.rng.random() + pod.pressure[resource])
            pod.stalled_s[resource] += stall * dt

    # ---- snapshots -------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        now_ns = int(self.clock_s * SECOND)
        by_pod: dict[tuple[str, int], list[Process]] = {}
        seen = []
        for process in self.processes:
            if not process.unprobed:
                by_pod.setdefault((process.pod, process.gpu), []).append(process)
                seen.append(self._process(process, now_ns))
        series = []
        for name, pod in self.pods.items():
            for gpu in range(len(self.uuids)):
                live = by_pod.get((name, gpu), [])
                ended = [p for p in pod.ended.get(gpu, []) if not p.unprobed]
                if live or ended:
                    series.append(self._series(pod.owner, gpu, live, ended))
        return Snapshot(
            version=1, agent_version="0", node="node-1", simulated=True, number=self.number,
            time_unix_ns=BEGAN_UNIX_NS + int(self.elapsed_s * SECOND), time_monotonic_ns=now_ns,
            interval_ns=int(self.dt * SECOND) if self.number > 1 else 0,
            driver_version="580.159.04", cuda_version="13.0", linux_version="6.18",
            processes=tuple(seen),
            series=tuple(series),
            times=tuple(self._times(name, pod) for name, pod in self.pods.items()),
            devices=tuple(self._device(n) for n in range(len(self.uuids))) if self.nvml else (),
            device_use=tuple(
                DeviceUse(gpu_uuid=u, processes_with_context=0, processes_active=0,
                          processes_claimed=0, pods=0)
                for u in self.uuids
            ),
            hosts=self._host_contexts(),
            entitlements=tuple(self._entitlements()) if self.kubelet else (),
            agent=HEALTH,
        )  # fmt: skip

    def _device(self, number: int) -> Device:
        here = [p for p in self.processes if p.gpu == number and p.alive]
        held = sum(p.held_bytes or 0 for p in here) + self.held_memory.get(number, 0)
        return Device(
            uuid=self.uuids[number], index=number, model=MODEL, pci_bus_id=f"0000:0{number}:00.0",
            memory_total_bytes=143_771_000_000, memory_used_bytes=held,
            memory_reserved_bytes=617_000_000, utilization_ratio=None, compute_mode="default",
            processes=tuple(DeviceProcess(p.pid, p.held_bytes) for p in here),
            mig_parent_uuid=self.mig_parent, simulated=True,
        )  # fmt: skip

    def _host_contexts(self) -> tuple[HostContext, ...]:
        """The CPU side is read every few seconds, and repeated between."""
        if self.clock_s - self._hosts_at >= HOSTS_S or self.dt >= HOSTS_S:
            self._hosts_at = self.clock_s
            self._hosts = tuple(self._host(p) for p in self.pods.values() if p.has_cgroup)
        return self._hosts

    def _host(self, pod: Pod) -> HostContext:
        if pod.owner.scope is Scope.HOST:
            return HostContext(owner=pod.owner)
        return HostContext(
            owner=pod.owner, cpu_quota_cores=pod.quota_cores,
            cpu_throttled_ns=int(pod.throttled_s * SECOND), cpu_used_ns=int(pod.used_s * SECOND),
            pressure_ns={r: int(s * SECOND) for r, s in pod.stalled_s.items()},
        )  # fmt: skip

    def _entitlements(self) -> Iterable[Entitlement]:
        for pod in self.pods.values():
            if pod.owner.scope is Scope.POD:
                for gpu in pod.entitled:
                    uuid = self.uuids[gpu]
                    yield Entitlement(
                        owner=pod.owner, gpu_uuid=uuid, resource="nvidia.com/gpu", device_id=uuid
                    )

    def _times(self, name: str, pod: Pod) -> OwnerTime:
        live = [p for p in self.processes if p.pod == name and not p.unprobed]
        pod.observed_s += self.dt * len(live)
        waits = sum(p.last.blocked_ratio for p in live) * self.dt
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

    def _process(self, process: Process, now_ns: int) -> SeenProcess:
        operations, blocked, memory = _parts([process])
        device = ProcessDevice(
            gpu_uuid=self.uuids[process.gpu], operations=operations, blocked_ns=blocked,
            histograms={}, errors=_errors([process]),
            known_idle_ns=int(process.counters.idle * SECOND) if process.idle_known else None,
            graph_launch_nodes=int(process.counters.nodes),
            launch_threads=int(process.counters.threads), issue_ns=_issue_ns([process]),
            open_calls=self._open([process]), memory=memory,
            memory_held_bytes=process.held_bytes if self.nvml else None,
            context_bytes=process.context_bytes, contexts=1,
            active=process.last.busy_ratio > 0,
        )  # fmt: skip
        started_ns = int(process.started_s * SECOND)
        return SeenProcess(
            number=process.number, pid=process.pid, comm=process.command,
            owner=self.pods[process.pod].owner, cgroup_id=1, started_ns=started_ns,
            observed_ns=now_ns - started_ns, blocked_wall_ns=0, complete=process.complete,
            alive=process.alive, devices=(device,),
        )  # fmt: skip

    def _series(self, owner: Owner, gpu: int, live: list[Process], ended: list[Process]) -> Series:
        everyone = live + ended
        operations, blocked, memory = _parts(everyone, live)
        idle = None
        if all(p.idle_known for p in everyone):
            idle = int(sum(p.counters.idle for p in everyone) * SECOND)
        held = [p.held_bytes for p in live if p.held_bytes is not None]
        return Series(
            owner=owner, gpu_uuid=self.uuids[gpu], operations=operations, blocked_ns=blocked,
            histograms={}, errors=_errors(everyone), known_idle_ns=idle,
            graph_launch_nodes=int(sum(p.counters.nodes for p in everyone)),
            graph_launches_unknown=0,
            launch_threads=int(sum(p.counters.threads for p in everyone)),
            issue_ns=_issue_ns(live), open_calls=self._open(live),
            memory=memory if all(p.complete for p in live) else None,
            memory_held_bytes=sum(held) if held and self.nvml else None,
            contexts=len(live), processes=len(live),
            active_processes=sum(p.last.busy_ratio > 0 for p in live),
        )  # fmt: skip

    def _open(self, processes: list[Process]) -> dict[Cause, OpenCall]:
        ages, symbol = [], "cuStreamSynchronize"
        for process in processes:
            if process.hung_since_s is not None:
                ages.append(self.clock_s - process.hung_since_s)
                symbol = process.hung_symbol
            elif process.last.wait_s and self.rng.random() < process.last.blocked_ratio:
                ages.append(min(self.dt, process.last.wait_s) * self.rng.random())
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
