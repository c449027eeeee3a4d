"""A process that used a traced library, and its counters by device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpugauge.model.abi import Cause, Family, Slot
from gpugauge.model.workload import Owner


@dataclass(frozen=True, slots=True)
class Operation:
    """Counters of one slot, since the process was first seen."""

    calls: int = 0
    errors: int = 0
    bytes: int = 0
    duration_ns: int = 0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Calls by duration; `upper_ns[i]` is the inclusive bound of `counts[i]`, the last is open."""

    counts: tuple[int, ...]
    sum_ns: int


HOST_FAMILIES = frozenset({Family.HOST, Family.HOST_REGISTERED})
"""Families of memory that lies on the host, not on a device."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory requested by live allocations of one family."""

    requested_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    frees: int = 0
    failures: int = 0
    failed_bytes: int = 0
    """Size of the last allocation that failed; 0: none did, or not known."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """Blocking calls that have not returned: how many and how old."""

    calls: int = 0
    blocked_ns: int = 0
    """Sum of their ages."""
    oldest_ns: int = 0
    oldest_symbol: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDevice:
    """What one process did on one device. Counters since the process was first seen.

    None says unknown, and is shown as unknown; it is never 0.
    """

    gpu_uuid: str
    """UUID, or "unknown"."""
    operations: Mapping[Slot, Operation]
    blocked_ns: Mapping[Cause, int]
    histograms: Mapping[Cause, Histogram]
    errors: Mapping[tuple[Slot, int], int]
    """Failed calls by slot and CUresult; a code outside CUresult is -1."""
    known_idle_ns: int | None = None
    graph_launch_nodes: int = 0
    graph_launches_unknown: int = 0
    launch_threads: int = 0
    issue_ns: int | None = None
    """Learned cost of issuing one launch; None until 100 are known."""
    open_calls: Mapping[Cause, OpenCall]
    memory: Mapping[Family, Memory] | None = None
    """None for a process that was not seen from its start."""
    memory_change_bytes: int = 0
    """Change of requested memory since the process was first seen (where memory is None)."""
    memory_complete: bool = True
    """False when an allocation could not be tracked: the sums are lower bounds."""
    memory_held_bytes: int | None = None
    """Held for it on the device, by NVML."""
    context_bytes: int | None = None
    """Held when the context was ready and nothing was requested yet; None where not seen."""
    contexts: int = 0
    claimed: bool = False
    """The process says it uses this device, but NVML does not list it there."""
    active: bool = False
    """It submitted or waited since the last tick."""


@dataclass(frozen=True, slots=True)
class Context:
    """A live context of a process."""

    gpu_uuid: str
    """UUID, or "unknown"."""
    created_ns: int
    """CLOCK_MONOTONIC; 0: before the agent could see it."""
    green: bool = False
    """A part of another context's device, which counts as no context of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process that made a traced call."""

    number: int
    """Never reused in one run of the agent; pids are."""
    pid: int
    comm: str
    owner: Owner
    cgroup_id: int
    started_ns: int
    """First seen, CLOCK_MONOTONIC."""
    observed_ns: int
    """process_seconds: how long it was observed, until now or its end."""
    blocked_wall_ns: int
    """Time with at least one thread blocked: a lower bound."""
    complete: bool
    """Seen from its start: False when it mapped the library before the probes were there."""
    alive: bool
    devices: tuple[ProcessDevice, ...]
    tenant_supplied: bool = False
    contexts: tuple[Context, ...] = ()
    """Live ones, oldest first."""
