"""A node with GPUs and processes in virtual time, and its snapshots.

It knows nothing of the diagnosis: it makes what the agent would have seen.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gpugauge.model.snapshot import (
    HostContext,
    Snapshot,
)
from gpugauge.model.workload import HOST, Owner, Scope
from tests.incidents.program import Process, Program, advance
from tests.incidents.seen import RESOURCES, snapshot_of


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
        self.hosts_at = float("-inf")
        self.hosts: tuple[HostContext, ...] = ()

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

    def settle(self, seconds: float) -> None:
        """Let time pass before anybody looks: what is so later is as it always was."""
        until = self.clock_s + seconds
        while self.clock_s < until:
            self.tick()
        self.began_s = self.clock_s

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
        snapshot = snapshot_of(self)
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
