"""A program on a GPU as a model of its steps, and what it makes of a second.

What a copy and a launch of eager PyTorch cost is measured.py's. The others are figures of
docs/validation.md, of the same H200: 4 us to issue a launch of a program in C, 0.4 ms for an
allocation and its free.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.incidents.measured import DTOH_S_PER_BYTE, HTOD_S_PER_BYTE

ISSUE_S = 4e-6
GRAPH_S = 9e-6
ALLOCATE_S = 0.42e-3
COPY_ISSUE_S = 4e-6
KNOWN_IDLE = 0.93
"""Part of the true idle time that is found in a program that drains: 1.29 s of 1.42 s."""


@dataclass
class Program:
    """What one step does. Bytes and counts are per step; times are seconds."""

    launches: float = 583
    graphs: float = 0
    graph_nodes: float = 0
    threads: float = 180_000
    syncs: float = 1
    htod: float = 2
    htod_bytes: float = 4e6
    dtoh: float = 1
    dtoh_bytes: float = 4
    peer_bytes: float = 0
    allocations: float = 0
    gpu_s: float = 0.024
    host_s: float = 0.004
    """Serial work of the host."""
    loader_s: float = 0.0
    """Time the loaders need for a batch, beside the step."""
    cpu_s: float = 0.03
    """CPU time of a step, loaders included."""
    issue_s: float = ISSUE_S
    drains: bool = True
    """It waits for the GPU every step; else it only fills the queue."""
    pageable_htod: bool = False
    pageable_dtoh: bool = False
    arrivals: float | None = None
    """Requests a second, for a service; None: as fast as it can."""
    jitter: float = 0.02


@dataclass
class Counters:
    """Totals of one process on one device."""

    launches: float = 0
    graphs: float = 0
    nodes: float = 0
    threads: float = 0
    syncs: float = 0
    htod: float = 0
    htod_bytes: float = 0
    dtoh: float = 0
    dtoh_bytes: float = 0
    peer_bytes: float = 0
    peers: float = 0
    allocations: float = 0
    blocked_sync: float = 0
    blocked_copy: float = 0
    blocked_queue: float = 0
    blocked_allocation: float = 0
    idle: float = 0
    cpu: float = 0
    steps: float = 0


@dataclass
class Second:
    """What a program made of some time."""

    busy_ratio: float = 0.0
    cpu_cores_wanted: float = 0.0
    wait_s: float = 0.0
    """Of one wait, for calls that are open at the tick."""
    blocked_ratio: float = 0.0


@dataclass
class Slow:
    """What slows it from outside: factors, 1 is not at all."""

    gpu: float = 1.0
    host: float = 1.0
    loader: float = 1.0
    issue: float = 1.0


def advance(program: Program, to: Counters, dt: float, slow: Slow, rng: random.Random) -> Second:
    """Let a program run for dt seconds and add up what it did."""
    p = program
    noise = rng.lognormvariate(0, p.jitter)
    gpu = p.gpu_s * slow.gpu * noise
    issue = (p.launches * p.issue_s + p.graphs * GRAPH_S) * slow.issue * slow.host
    allocation = p.allocations * ALLOCATE_S
    copies = (p.htod + p.dtoh) * COPY_ISSUE_S
    copy_wait = 0.0
    if p.pageable_htod:
        copy_wait += p.htod_bytes * HTOD_S_PER_BYTE
    if p.pageable_dtoh:
        copy_wait += p.dtoh_bytes * DTOH_S_PER_BYTE
    serial = p.host_s * slow.host * rng.lognormvariate(0, p.jitter)
    if p.drains:
        wait, queue = max(0.0, gpu - issue), 0.0
        active = issue + copies + wait + copy_wait
        step = active + serial + allocation
        idle = serial + allocation + (copy_wait if not p.pageable_htod else 0.0)
    else:
        host = serial + issue + copies + copy_wait + allocation
        step = max(host, gpu)
        wait, queue, idle = 0.0, step - host, 0.0
    loader = p.loader_s * slow.loader * rng.lognormvariate(0, p.jitter)
    if loader > step:
        idle += (loader - step) if p.drains else 0.0
        step = loader
    if p.arrivals is not None:
        wanted = max(0.0, rng.gauss(p.arrivals * dt, (p.arrivals * dt) ** 0.5))
        steps = min(wanted, dt / step)
        idle_total = idle * steps + max(0.0, dt - steps * step)
    else:
        steps = dt / step
        idle_total = idle * steps
    to.steps += steps
    to.launches += p.launches * steps
    to.graphs += p.graphs * steps
    to.nodes += p.graphs * p.graph_nodes * steps
    to.threads += p.launches * p.threads * steps
    to.syncs += p.syncs * steps
    to.htod += p.htod * steps
    to.htod_bytes += p.htod_bytes * steps
    to.dtoh += p.dtoh * steps
    to.dtoh_bytes += p.dtoh_bytes * steps
    to.peer_bytes += p.peer_bytes * steps
    to.peers += steps if p.peer_bytes else 0
    to.allocations += p.allocations * steps
    to.blocked_sync += wait * steps
    to.blocked_copy += copy_wait * steps
    to.blocked_queue += queue * steps
    to.blocked_allocation += allocation * steps * 0.7
    to.idle += idle_total * KNOWN_IDLE
    blocked = (wait + queue + copy_wait) * steps / dt
    return Second(
        busy_ratio=min(1.0, gpu / slow.gpu * steps / dt * slow.gpu),
        cpu_cores_wanted=p.cpu_s * steps / dt + blocked,
        wait_s=wait / max(1.0, p.syncs) if wait else queue / max(1.0, p.launches),
        blocked_ratio=min(1.0, blocked),
    )


@dataclass
class Process:
    """A process that runs a program on one device."""

    number: int
    pid: int
    pod: str
    gpu: int
    program: Program
    started_s: float
    command: str = "python3"
    complete: bool = True
    alive: bool = True
    counters: Counters = field(default_factory=Counters)
    slow: Slow = field(default_factory=Slow)
    hung_since_s: float | None = None
    hung_symbol: str = "cuStreamSynchronize"
    paused: bool = False
    last: Second = field(default_factory=Second)
    errors: dict[tuple[str, int], int] = field(default_factory=dict)
    requested_bytes: int = 6_000_000_000
    held_bytes: int | None = 6_800_000_000
    context_bytes: int | None = 540_000_000
    failures: int = 0
    failed_bytes: int = 0
    unprobed: bool = False
    """NVML lists it, its calls are not seen."""
    idle_known: bool = True
