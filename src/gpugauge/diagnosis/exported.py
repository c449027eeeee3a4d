"""From exported series back to snapshots, as far as they go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpugauge.model.abi import Cause, Family, Slot
from gpugauge.model.device import Device
from gpugauge.model.process import Memory, OpenCall, Operation
from gpugauge.model.snapshot import (
    SNAPSHOT_VERSION,
    AgentHealth,
    HostContext,
    OwnerTime,
    Series,
    Snapshot,
)
from gpugauge.model.workload import UNKNOWN, Owner, Scope

SECOND = 1_000_000_000
Labels = Mapping[str, str]
Table = dict[str, list[tuple[dict[str, str], list[tuple[float, float]]]]]
"""By metric: its series, each with labels and (Unix time, value) points."""

METRICS = (
    "launches_total",
    "graph_launches_total",
    "graph_kernels_total",
    "graph_launches_unknown_total",
    "launch_threads_total",
    "sync_calls_total",
    "poll_calls_total",
    "copies_total",
    "copy_bytes_total",
    "allocations_total",
    "frees_total",
    "errors_total",
    "blocked_seconds_total",
    "inflight_blocked_seconds",
    "known_idle_seconds_total",
    "launch_issue_seconds",
    "contexts",
    "memory_held_bytes",
    "memory_requested_bytes",
    "process_seconds_total",
    "cpu_seconds_total",
    "cpu_throttled_seconds_total",
    "cpu_quota_cores",
    "pressure_seconds_total",
    "device_memory_capacity_bytes",
    "device_memory_used_bytes",
    "device_memory_reserved_bytes",
)
_CALLS = {
    "launches_total": Slot.LAUNCH,
    "graph_launches_total": Slot.GRAPH_LAUNCH,
    "sync_calls_total": Slot.SYNCHRONIZE,
    "allocations_total": Slot.ALLOCATE,
    "frees_total": Slot.FREE,
}
_DIRECTIONS = {
    "htod": Slot.COPY_HTOD,
    "dtoh": Slot.COPY_DTOH,
    "dtod": Slot.COPY_DTOD,
    "peer": Slot.COPY_PEER,
    "unknown": Slot.COPY_UNKNOWN,
}
_OPERATIONS = {slot.name.lower(): slot for slot in Slot} | {
    "copy": Slot.COPY_UNKNOWN,
    "poll": Slot.POLL_READY,
}
_HEALTH = AgentHealth(
    attach_mode=UNKNOWN, probes={}, libraries=0, losses={}, unprobed_processes={},
    incomplete_processes=0, hits=0, probe_cost_ns=None, tick_ns=0, tick_late=0,
    bpf_memory_bytes=0, history_bytes=0, cpu_ns=0, rss_bytes=0, nvml_error="not asked",
    pods_error="not asked", unresolved={}, ready=True,
)  # fmt: skip


@dataclass(slots=True)
class _Parts:
    """What is known of one owner on one device, or of one owner, at one moment."""

    values: dict[str, float] = field(default_factory=dict)
    calls: dict[Slot, float] = field(default_factory=dict)
    bytes: dict[Slot, float] = field(default_factory=dict)
    blocked: dict[Cause, float] = field(default_factory=dict)
    open: dict[Cause, float] = field(default_factory=dict)
    errors: dict[tuple[Slot, int], int] = field(default_factory=dict)
    requested: dict[Family, float] = field(default_factory=dict)
    pressure: dict[str, float] = field(default_factory=dict)


def snapshots_of(table: Table, step_seconds: int) -> dict[str, Iterator[Snapshot]]:
    """Return snapshots of each node, oldest first, one a step."""
    nodes: dict[str, dict[int, dict[tuple[Owner, str], _Parts]]] = {}
    for name, listed in table.items():
        for labels, points in listed:
            node = labels.get("node") or labels.get("instance") or UNKNOWN
            key = (_owner(labels), labels.get("gpu_uuid", ""))
            steps = nodes.setdefault(node, {})
            for time, value in points:
                parts = steps.setdefault(round(time / step_seconds), {}).setdefault(key, _Parts())
                _put(parts, name, labels, value)
    simulated = any("simulated" in labels for listed in table.values() for labels, _ in listed)
    return {
        node: _snapshots(node, steps, step_seconds, simulated)
        for node, steps in sorted(nodes.items())
    }


def _snapshots(
    node: str,
    steps: dict[int, dict[tuple[Owner, str], _Parts]],
    step_seconds: int,
    simulated: bool,
) -> Iterator[Snapshot]:
    for number, step in enumerate(sorted(steps), 1):
        parts = steps[step]
        at_ns = step * step_seconds * SECOND
        owners = {key: part for key, part in parts.items() if not key[1]}
        yield Snapshot(
            version=SNAPSHOT_VERSION, agent_version=UNKNOWN, node=node, simulated=simulated,
            number=number, time_unix_ns=at_ns, time_monotonic_ns=at_ns,
            interval_ns=step_seconds * SECOND, driver_version=UNKNOWN, cuda_version=UNKNOWN,
            linux_version=UNKNOWN, processes=(),
            series=tuple(
                _series(owner, gpu, part)
                for (owner, gpu), part in parts.items()
                if gpu and "launches_total" in part.values
            ),
            times=tuple(_time(owner, part) for (owner, _), part in owners.items()),
            devices=tuple(
                _device(gpu, part)
                for (_, gpu), part in parts.items()
                if gpu and "device_memory_capacity_bytes" in part.values
            ),
            device_use=(),
            hosts=tuple(_host(owner, part) for (owner, _), part in owners.items()),
            entitlements=(), agent=_HEALTH,
        )  # fmt: skip


def _owner(labels: Labels) -> Owner:
    # Prometheus renames what the target also has, unless honorLabels is set. An empty label is
    # no label: without honorLabels the agent's own pod stands where a host process has none.
    scope = labels.get("scope", "")
    renamed = any(f"exported_{name}" in labels for name in ("namespace", "pod", "container"))

    def get(name: str) -> str:
        if renamed or scope == Scope.HOST:
            return labels.get(f"exported_{name}", "")
        return labels.get(name, "")

    known = scope in Scope._value2member_map_
    return Owner(
        Scope(scope) if known else Scope.UNKNOWN,
        namespace=get("namespace") if known else "",
        pod=get("pod") if known else "",
        container=get("container") if known else "",
        workload=labels.get("exported_workload", labels.get("workload", "")) if known else "",
    )


def _put(parts: _Parts, name: str, labels: Labels, value: float) -> None:
    parts.values[name] = parts.values.get(name, 0.0) + value
    direction = _DIRECTIONS.get(labels.get("direction", ""))
    cause = Cause.__members__.get(labels.get("cause", "").upper())
    if name in _CALLS:
        slot = _CALLS[name]
        parts.calls[slot] = parts.calls.get(slot, 0.0) + value
    elif name == "poll_calls_total":
        slot = Slot.POLL_READY if labels.get("ready") == "true" else Slot.POLL_NOT_READY
        parts.calls[slot] = value
    elif name == "copies_total" and direction is not None:
        parts.calls[direction] = value
    elif name == "copy_bytes_total" and direction is not None:
        parts.bytes[direction] = value
    elif name == "blocked_seconds_total" and cause is not None:
        parts.blocked[cause] = value
    elif name == "inflight_blocked_seconds" and cause is not None:
        parts.open[cause] = value
    elif name == "memory_requested_bytes":
        family = Family.__members__.get(labels.get("family", "").upper())
        if family is not None:
            parts.requested[family] = value
    elif name == "pressure_seconds_total":
        parts.pressure[labels.get("resource", "")[:32]] = value
    elif name == "errors_total":
        operation, code = _OPERATIONS.get(labels.get("op", "")), labels.get("code", "")
        if operation is not None:
            number = int(code) if code.isdecimal() and len(code) < 7 else -1
            parts.errors[(operation, number)] = int(value)


def _series(owner: Owner, gpu_uuid: str, parts: _Parts) -> Series:
    values = parts.values
    slots: dict[Slot, Any] = dict.fromkeys((*parts.calls, *parts.bytes))
    contexts = int(values.get("contexts", 0))
    return Series(
        owner=owner, gpu_uuid=gpu_uuid,
        operations={
            slot: Operation(int(parts.calls.get(slot, 0)), bytes=int(parts.bytes.get(slot, 0)))
            for slot in slots
        },
        blocked_ns={cause: int(value * SECOND) for cause, value in parts.blocked.items()},
        histograms={},
        errors=parts.errors,
        known_idle_ns=_ns(values.get("known_idle_seconds_total")),
        graph_launch_nodes=int(values.get("graph_kernels_total", 0)),
        graph_launches_unknown=int(values.get("graph_launches_unknown_total", 0)),
        launch_threads=int(values.get("launch_threads_total", 0)),
        issue_ns=_ns(values.get("launch_issue_seconds")),
        open_calls={
            # The age of a single call is not exported: the sum is that of one thread at most.
            cause: OpenCall(calls=1, blocked_ns=int(value * SECOND), oldest_ns=int(value * SECOND))
            for cause, value in parts.open.items()
            if value > 0
        },
        memory={f: Memory(requested_bytes=int(v)) for f, v in parts.requested.items()} or None,
        memory_held_bytes=_whole(values.get("memory_held_bytes")),
        contexts=contexts, processes=max(1, contexts), active_processes=max(1, contexts),
    )  # fmt: skip


def _host(owner: Owner, parts: _Parts) -> HostContext:
    values = parts.values
    return HostContext(
        owner=owner,
        cpu_quota_cores=values.get("cpu_quota_cores"),
        cpu_throttled_ns=_ns(values.get("cpu_throttled_seconds_total")),
        cpu_used_ns=_ns(values.get("cpu_seconds_total")),
        pressure_ns={name: int(value * SECOND) for name, value in parts.pressure.items()},
    )


def _time(owner: Owner, parts: _Parts) -> OwnerTime:
    observed = _ns(parts.values.get("process_seconds_total")) or 0
    return OwnerTime(
        owner=owner, observed_ns=observed, host_waits_ns=0, gpu_waits_ns=0,
        overlapped_ns=observed, unobserved_ns=0,
    )  # fmt: skip


def _device(gpu_uuid: str, parts: _Parts) -> Device:
    values = parts.values
    return Device(
        uuid=gpu_uuid, index=-1, model="", pci_bus_id="",
        memory_total_bytes=_whole(values.get("device_memory_capacity_bytes")),
        memory_used_bytes=_whole(values.get("device_memory_used_bytes")),
        memory_reserved_bytes=_whole(values.get("device_memory_reserved_bytes")),
        utilization_ratio=None, compute_mode="", processes=None,
    )  # fmt: skip


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * SECOND)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
