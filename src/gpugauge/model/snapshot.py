"""One tick of the agent, frozen: all that comes after it is a function of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpugauge.model.abi import Cause, Family, Loss, Slot
from gpugauge.model.cluster import LoadScore, OffSwitch, PodEvents
from gpugauge.model.device import Device
from gpugauge.model.process import Histogram, Memory, OpenCall, Operation, Process
from gpugauge.model.workload import Owner

SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Totals of one owner on one device, ended processes included: never go back."""

    owner: Owner
    gpu_uuid: str
    operations: Mapping[Slot, Operation]
    blocked_ns: Mapping[Cause, int]
    histograms: Mapping[Cause, Histogram]
    errors: Mapping[tuple[Slot, int], int]
    known_idle_ns: int | None
    graph_launch_nodes: int
    graph_launches_unknown: int
    launch_threads: int
    issue_ns: int | None
    open_calls: Mapping[Cause, OpenCall]
    memory: Mapping[Family, Memory] | None
    memory_held_bytes: int | None
    contexts: int
    processes: int
    active_processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTime:
    """The time split of one owner, in process-nanoseconds; never goes back.

    host_waits + gpu_waits + overlapped + unobserved = observed.
    """

    owner: Owner
    observed_ns: int
    host_waits_ns: int
    gpu_waits_ns: int
    overlapped_ns: int
    unobserved_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """Who shares a device."""

    gpu_uuid: str
    processes_with_context: int
    processes_active: int
    processes_claimed: int
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """What the CPU side of one owner's cgroup was given and took. None: not known."""

    owner: Owner
    cpu_quota_cores: float | None = None
    cpu_throttled_ns: int | None = None
    cpu_used_ns: int | None = None
    pressure_ns: Mapping[str, int] = field(default_factory=dict)
    """Time with some task stalled, by `cpu`, `io`, `memory`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlement:
    """A device that the kubelet gave to a container."""

    owner: Owner
    gpu_uuid: str
    resource: str
    device_id: str
    replicas: int = 0
    """How many replicas this device is shared into here (`::N` ids); 0: exclusive."""


class GapKind(StrEnum):
    """How entitlement and use of a device differ."""

    NOT_ENTITLED = "not_entitled"
    """It works on a device that the kubelet did not give to its pod."""
    NOT_USED = "not_used"
    """The kubelet gave it, and no container of the pod has worked on it since the agent watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitlementGap:
    """A container whose use of a device differs from what the kubelet gave out."""

    owner: Owner
    gpu_uuid: str
    kind: GapKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHealth:
    """The agent on itself."""

    attach_mode: str
    probes: Mapping[str, int]
    """By state: attached, refused (no legal site), failed."""
    libraries: int
    losses: Mapping[Loss, int]
    unprobed_processes: Mapping[str, int]
    """By reason."""
    incomplete_processes: int
    hits: int
    probe_cost_ns: float | None
    """Measured at start: added to one call by entry and return."""
    tick_ns: int
    tick_late: int
    bpf_memory_bytes: int
    history_bytes: int
    cpu_ns: int
    rss_bytes: int
    nvml_error: str
    pods_error: str
    unresolved: Mapping[str, int]
    """Processes whose owner is unknown, by reason."""
    ready: bool
    off_switches: tuple[OffSwitch, ...] = ()
    """Each place that can switch the probes off; none in a process without a switch."""
    pod_events: PodEvents | None = None
    """None where none are written."""
    load_score: LoadScore | None = None
    """None where none is written."""
    started_ns: int | None = None
    """Its first tick, CLOCK_MONOTONIC: another value is another run, whose counters begin anew.
    None: an agent that does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that is known at one tick."""

    version: int
    agent_version: str
    node: str
    simulated: bool
    number: int
    """Of the tick, from 1."""
    time_unix_ns: int
    time_monotonic_ns: int
    interval_ns: int
    """Since the tick before; 0 at the first."""
    driver_version: str
    cuda_version: str
    linux_version: str
    processes: tuple[Process, ...]
    """Live ones, and those that ended since the tick before."""
    series: tuple[Series, ...]
    times: tuple[OwnerTime, ...]
    devices: tuple[Device, ...]
    device_use: tuple[DeviceUse, ...]
    hosts: tuple[HostContext, ...]
    entitlements: tuple[Entitlement, ...]
    agent: AgentHealth
    entitlements_known: bool = False
    """The kubelet has answered: only then does an absent entitlement mean anything."""
    entitlement_gaps: tuple[EntitlementGap, ...] = ()
    """None while entitlements are not known."""
