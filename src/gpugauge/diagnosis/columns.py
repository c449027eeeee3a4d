"""The columns of a history point, and how they are read from a snapshot.

A point holds what happened since the point before (the sums), and what was so at
its end (the gauges). All times are seconds. A row is a plain list of floats, in the
order of these numbers, because a node has hundreds of them a second.
"""

from __future__ import annotations

from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import HOST_FAMILIES, Process, ProcessDevice
from gpugauge.model.snapshot import HostContext, OwnerTime, Series

NS = 1e-9

(
    SECONDS,
    PROCESS_SECONDS,
    LAUNCHES,
    GRAPH_LAUNCHES,
    GRAPH_NODES,
    GRAPHS_UNKNOWN,
    THREADS,
    SYNCS,
    POLLS,
    HTOD_CALLS,
    HTOD_BYTES,
    DTOH_CALLS,
    DTOH_BYTES,
    OTHER_COPIES,
    OTHER_BYTES,
    ALLOCATIONS,
    FREES,
    ALLOCATION_TIME,
    ERRORS,
    BLOCKED_SYNCHRONIZE,
    BLOCKED_COPY,
    BLOCKED_LAUNCH_QUEUE,
    BLOCKED_ALLOCATION,
    BLOCKED_LAUNCH_OTHER,
    IDLE,
    IDLE_KNOWN,
    ISSUE,
    PROCESSES,
    REQUESTED,
    HELD,
    OLDEST_OPEN,
) = range(31)
WIDTH = 31
FIRST_GAUGE = ISSUE
BLOCKED = range(BLOCKED_SYNCHRONIZE, BLOCKED_LAUNCH_OTHER + 1)

(
    HOST_SECONDS,
    CPU_USED,
    CPU_KNOWN,
    THROTTLED,
    THROTTLED_KNOWN,
    PRESSURE_CPU,
    PRESSURE_IO,
    PRESSURE_MEMORY,
    PRESSURE_KNOWN,
    OBSERVED,
    UNOBSERVED,
    QUOTA,
) = range(12)
HOST_WIDTH = 12
HOST_FIRST_GAUGE = QUOTA

(
    P_SECONDS,
    P_LAUNCHES,
    P_WAITS,
    P_COPIED,
    P_BLOCKED,
    P_BLOCKED_WALL,
) = range(6)
PROCESS_WIDTH = PROCESS_FIRST_GAUGE = 6

_CALLS = {
    Slot.LAUNCH: LAUNCHES,
    Slot.GRAPH_LAUNCH: GRAPH_LAUNCHES,
    Slot.SYNCHRONIZE: SYNCS,
    Slot.POLL_NOT_READY: POLLS,
    Slot.COPY_HTOD: HTOD_CALLS,
    Slot.COPY_DTOH: DTOH_CALLS,
    Slot.COPY_DTOD: OTHER_COPIES,
    Slot.COPY_PEER: OTHER_COPIES,
    Slot.COPY_UNKNOWN: OTHER_COPIES,
    Slot.ALLOCATE: ALLOCATIONS,
    Slot.FREE: FREES,
}
_BYTES = {
    Slot.COPY_HTOD: HTOD_BYTES,
    Slot.COPY_DTOH: DTOH_BYTES,
    Slot.COPY_DTOD: OTHER_BYTES,
    Slot.COPY_PEER: OTHER_BYTES,
    Slot.COPY_UNKNOWN: OTHER_BYTES,
}
_CAUSES = {
    Cause.SYNCHRONIZE: BLOCKED_SYNCHRONIZE,
    Cause.COPY: BLOCKED_COPY,
    Cause.LAUNCH_QUEUE: BLOCKED_LAUNCH_QUEUE,
    Cause.ALLOCATION: BLOCKED_ALLOCATION,
    Cause.LAUNCH_OTHER: BLOCKED_LAUNCH_OTHER,
}


def totals(of: Series | ProcessDevice) -> list[float]:
    """Return counters since the beginning, and gauges, in the order of the columns.

    Calls that are still open count as blocked for their age: a call that never
    returns must show. SECONDS and PROCESS_SECONDS are left 0 for the caller.
    """
    row = [0.0] * WIDTH
    for slot, operation in of.operations.items():
        column = _CALLS.get(slot)
        if column is not None:
            row[column] += operation.calls
            column = _BYTES.get(slot)
            if column is not None:
                row[column] += operation.bytes
            elif slot in (Slot.ALLOCATE, Slot.FREE):
                row[ALLOCATION_TIME] += operation.duration_ns * NS
        row[ERRORS] += operation.errors
    for cause, blocked_ns in of.blocked_ns.items():
        row[_CAUSES[cause]] += blocked_ns * NS
    for cause, call in of.open_calls.items():
        row[_CAUSES[cause]] += call.blocked_ns * NS
        row[OLDEST_OPEN] = max(row[OLDEST_OPEN], call.oldest_ns * NS)
    row[GRAPH_NODES] = of.graph_launch_nodes
    row[GRAPHS_UNKNOWN] = of.graph_launches_unknown
    row[THREADS] = of.launch_threads
    if of.known_idle_ns is not None:
        row[IDLE], row[IDLE_KNOWN] = of.known_idle_ns * NS, 1.0
    row[ISSUE] = (of.issue_ns or 0) * NS
    row[PROCESSES] = of.processes if isinstance(of, Series) else 1
    row[HELD] = of.memory_held_bytes or 0
    for family, memory in (of.memory or {}).items():
        if family not in HOST_FAMILIES:
            row[REQUESTED] += memory.requested_bytes
    return row


def host_totals(host: HostContext | None, time: OwnerTime | None) -> list[float]:
    """Return an owner's CPU side since the beginning; the *_KNOWN columns are 1 where known."""
    row = [0.0] * HOST_WIDTH
    if host is not None:
        if host.cpu_used_ns is not None:
            row[CPU_USED], row[CPU_KNOWN] = host.cpu_used_ns * NS, 1.0
        if host.cpu_throttled_ns is not None:
            row[THROTTLED], row[THROTTLED_KNOWN] = host.cpu_throttled_ns * NS, 1.0
        if host.pressure_ns:
            row[PRESSURE_CPU] = host.pressure_ns.get("cpu", 0) * NS
            row[PRESSURE_IO] = host.pressure_ns.get("io", 0) * NS
            row[PRESSURE_MEMORY] = host.pressure_ns.get("memory", 0) * NS
            row[PRESSURE_KNOWN] = 1.0
        row[QUOTA] = host.cpu_quota_cores or 0.0
    if time is not None:
        row[OBSERVED], row[UNOBSERVED] = time.observed_ns * NS, time.unobserved_ns * NS
    return row


def point(before: list[float], now: list[float], seconds: float) -> list[float] | None:
    """Return what happened on a device between two totals; None where counters went back."""
    row = [b - a for a, b in zip(before, now, strict=True)]
    if min(row[LAUNCHES : ERRORS + 1]) < -1e-6:
        return None
    for column in BLOCKED:  # an open call and its return are not read at one instant
        row[column] = max(0.0, row[column])
    row[SECONDS] = seconds
    row[PROCESS_SECONDS] = seconds * max(before[PROCESSES], now[PROCESSES], 1.0)
    known = before[IDLE_KNOWN] and now[IDLE_KNOWN]
    row[IDLE_KNOWN] = row[PROCESS_SECONDS] if known else 0.0
    row[IDLE] = max(0.0, row[IDLE]) if known else 0.0
    row[FIRST_GAUGE:] = now[FIRST_GAUGE:]
    return row


def host_point(before: list[float], now: list[float], seconds: float) -> list[float]:
    """Return what happened to an owner's CPU side; what went back counts as not known."""
    row = [b - a for a, b in zip(before, now, strict=True)]
    row[HOST_SECONDS] = seconds
    for known, parts in (
        (CPU_KNOWN, (CPU_USED,)),
        (THROTTLED_KNOWN, (THROTTLED,)),
        (PRESSURE_KNOWN, (PRESSURE_CPU, PRESSURE_IO, PRESSURE_MEMORY)),
    ):
        both = before[known] and now[known] and all(row[part] >= 0 for part in parts)
        row[known] = seconds if both else 0.0
        for part in parts:
            row[part] = row[part] if both else 0.0
    row[OBSERVED], row[UNOBSERVED] = max(0.0, row[OBSERVED]), max(0.0, row[UNOBSERVED])
    row[QUOTA] = now[QUOTA]
    return row


def process_totals(process: Process) -> list[float]:
    """Return a process's counters since the beginning, all devices together."""
    row = [0.0] * PROCESS_WIDTH
    for device in process.devices:
        for slot, operation in device.operations.items():
            if slot in (Slot.LAUNCH, Slot.GRAPH_LAUNCH):
                row[P_LAUNCHES] += operation.calls
            elif slot is Slot.SYNCHRONIZE:
                row[P_WAITS] += operation.calls
            elif slot in _BYTES:
                row[P_COPIED] += operation.bytes
        row[P_BLOCKED] += sum(device.blocked_ns.values()) * NS
        row[P_BLOCKED] += sum(call.blocked_ns for call in device.open_calls.values()) * NS
    row[P_BLOCKED_WALL] = process.blocked_wall_ns * NS
    return row


def process_point(before: list[float], now: list[float], seconds: float) -> list[float]:
    """Return what a process did between two totals."""
    row = [max(0.0, b - a) for a, b in zip(before, now, strict=True)]
    row[P_SECONDS] = seconds
    return row
