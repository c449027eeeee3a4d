"""Processes and series as the model shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gpugauge.model.abi import Cause, Family
from gpugauge.model.process import Context, Memory, OpenCall, Process, ProcessDevice
from gpugauge.model.snapshot import OwnerTime, Series
from gpugauge.model.workload import UNKNOWN
from gpugauge.state.identity import ContextRow
from gpugauge.state.lanes import Lanes
from gpugauge.state.ledger import SeriesTotal, TimeTotal
from gpugauge.state.reading import CountsReading
from gpugauge.state.tracked import Tracked, TrackedPlace

Place = tuple[int, int]
"""(process number, place)"""

CLAIM_GRACE_NS = 5_000_000_000
"""NVML lists a process some time after its first call."""


class Extra:
    """What of a tick belongs to places, but is not in their counters."""

    def __init__(
        self,
        open_calls: Mapping[Place, Mapping[Cause, OpenCall]],
        memory: Mapping[Place, Mapping[Family, Memory]],
        untracked: set[Place],
        held: Mapping[tuple[int, str], int | None],
    ) -> None:
        self.open_calls = open_calls
        self.memory = memory
        self.untracked = untracked
        self.held = held
        """By (pid, gpu_uuid), from NVML."""


def process_device(
    process: Tracked, number: int, at: TrackedPlace, reading: CountsReading, extra: Extra
) -> ProcessDevice:
    """Return what one process did at one place."""
    key = (process.slot.number, number)
    memory = extra.memory.get(key, {})
    held = extra.held.get((process.slot.pid, at.gpu_uuid)) if process.alive else None
    requested = sum(each.requested_bytes for each in memory.values())
    lanes = at.lanes or reading.empty
    nodes, unknown = reading.graphs(lanes)
    queue_ns = at.issue.queue_ns
    return ProcessDevice(
        gpu_uuid=at.gpu_uuid,
        operations=reading.operations(lanes),
        blocked_ns=reading.blocked_ns(lanes, queue_ns),
        histograms=reading.histograms(lanes, queue_ns),
        errors=MappingProxyType(dict(at.errors)),
        known_idle_ns=at.idle_ns,
        graph_launch_nodes=nodes,
        graph_launches_unknown=unknown,
        launch_threads=reading.launch_threads(lanes),
        issue_ns=None if at.issue.issue_ns is None else round(at.issue.issue_ns),
        open_calls=MappingProxyType(dict(extra.open_calls.get(key, {}))),
        memory=MappingProxyType(dict(memory)) if process.complete else None,
        memory_change_bytes=requested,
        memory_complete=key not in extra.untracked,
        memory_held_bytes=held,
        context_bytes=at.context_bytes,
        contexts=process.slot.places[number].contexts,
        claimed=at.claimed,
        active=at.active or bool(extra.open_calls.get(key)),
    )


def process_view(
    process: Tracked,
    now_ns: int,
    reading: CountsReading,
    extra: Extra,
    contexts: Iterable[ContextRow] = (),
) -> Process:
    """Return a process as the model shows it."""
    slot = process.slot
    return Process(
        number=slot.number,
        pid=slot.pid,
        comm=slot.comm.decode("utf-8", "replace"),
        owner=process.owner,
        cgroup_id=slot.cgroup_id,
        started_ns=slot.first_call_ns,
        observed_ns=process.observed_ns(now_ns),
        blocked_wall_ns=process.blocked_wall_ns,
        complete=process.complete,
        alive=process.alive,
        devices=tuple(
            process_device(process, number, at, reading, extra)
            for number, at in sorted(process.places.items())
            if at.wide or at.gpu_uuid != UNKNOWN or extra.open_calls.get((slot.number, number))
        ),
        tenant_supplied=process.tenant_supplied,
        contexts=tuple(
            Context(
                gpu_uuid=process.places[row.place].gpu_uuid
                if row.place in process.places
                else UNKNOWN,
                created_ns=row.created_ns,
                green=row.green,
            )
            for row in sorted(contexts, key=lambda row: row.created_ns)
        ),
    )


def summed_memory(devices: Iterable[ProcessDevice]) -> Mapping[Family, Memory] | None:
    """Return requested memory of several processes; None when one of them is unknown."""
    devices = tuple(devices)
    if len(devices) == 1:
        return devices[0].memory
    total: dict[Family, Memory] = {}
    for device in devices:
        if device.memory is None:
            return None
        for family, one in device.memory.items():
            had = total.get(family, Memory())
            total[family] = Memory(
                requested_bytes=had.requested_bytes + one.requested_bytes,
                peak_bytes=had.peak_bytes + one.peak_bytes,
                allocations=had.allocations + one.allocations,
                frees=had.frees + one.frees,
                failures=had.failures + one.failures,
                failed_bytes=one.failed_bytes or had.failed_bytes,
            )
    return MappingProxyType(total)


def summed_open_calls(devices: Iterable[ProcessDevice]) -> Mapping[Cause, OpenCall]:
    """Return open calls of several processes."""
    devices = tuple(devices)
    if len(devices) == 1:
        return devices[0].open_calls
    total: dict[Cause, OpenCall] = {}
    for device in devices:
        for cause, one in device.open_calls.items():
            had = total.get(cause, OpenCall())
            older = one.oldest_ns > had.oldest_ns
            total[cause] = OpenCall(
                calls=had.calls + one.calls,
                blocked_ns=had.blocked_ns + one.blocked_ns,
                oldest_ns=max(one.oldest_ns, had.oldest_ns),
                oldest_symbol=one.oldest_symbol if older else had.oldest_symbol,
            )
    return MappingProxyType(total)


def series_view(
    total: SeriesTotal, live: tuple[ProcessDevice, ...], reading: CountsReading, lanes: Lanes
) -> Series:
    """Return a series: its totals, and the present of its live processes."""
    values = total.values(lanes)
    nodes, unknown = reading.graphs(values)
    held = [each.memory_held_bytes for each in live]
    known_held = [each for each in held if each is not None]
    costs = [each.issue_ns for each in live if each.issue_ns is not None]
    return Series(
        owner=total.owner,
        gpu_uuid=total.gpu_uuid,
        operations=reading.operations(values),
        blocked_ns=reading.blocked_ns(values, total.queue_ns),
        histograms=reading.histograms(values, total.queue_ns),
        errors=MappingProxyType(dict(total.errors)),
        known_idle_ns=total.idle_ns,
        graph_launch_nodes=nodes,
        graph_launches_unknown=unknown,
        launch_threads=reading.launch_threads(values),
        issue_ns=round(sum(costs) / len(costs)) if costs else None,
        open_calls=summed_open_calls(live),
        memory=summed_memory(live),
        memory_held_bytes=sum(known_held) if known_held and len(known_held) == len(held) else None,
        contexts=sum(each.contexts for each in live),
        processes=len(live),
        active_processes=sum(each.active for each in live),
    )


def time_view(total: TimeTotal) -> OwnerTime:
    """Return the time split of an owner."""
    observed, host, gpu, overlapped, unobserved = total.parts_ns
    return OwnerTime(
        owner=total.owner,
        observed_ns=observed,
        host_waits_ns=host,
        gpu_waits_ns=gpu,
        overlapped_ns=overlapped,
        unobserved_ns=unobserved,
    )
