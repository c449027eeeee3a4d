"""Sums of what several owners share one label set for: a pod made anew under its old name.

Unknown parts are left out of a sum, so a sum is unknown only where every part is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from gpugauge.model.abi import Slot
from gpugauge.model.process import Histogram, Memory, OpenCall, Operation
from gpugauge.model.snapshot import HostContext, OwnerTime, Series

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def merge_series(parts: Sequence[Series]) -> Series:
    """Return the sum of several owners' totals on one device."""
    if len(parts) == 1:
        return parts[0]
    memories = [part.memory for part in parts if part.memory is not None]
    return replace(
        parts[0],
        operations=_tables([part.operations for part in parts], _operations),
        blocked_ns=_tables([part.blocked_ns for part in parts], _plus),
        histograms=_tables([part.histograms for part in parts], _histograms),
        errors=_tables([part.errors for part in parts], _plus),
        known_idle_ns=_known([part.known_idle_ns for part in parts]),
        graph_launch_nodes=sum(part.graph_launch_nodes for part in parts),
        graph_launches_unknown=sum(part.graph_launches_unknown for part in parts),
        launch_threads=sum(part.launch_threads for part in parts),
        issue_ns=_issue_ns(parts),
        open_calls=_tables([part.open_calls for part in parts], _open_calls),
        memory=_tables(memories, _memories) if memories else None,
        memory_held_bytes=_known([part.memory_held_bytes for part in parts]),
        contexts=sum(part.contexts for part in parts),
        processes=sum(part.processes for part in parts),
        active_processes=sum(part.active_processes for part in parts),
    )


def merge_times(parts: Sequence[OwnerTime]) -> OwnerTime:
    """Return the sum of several owners' time splits."""
    return OwnerTime(
        owner=parts[0].owner,
        observed_ns=sum(part.observed_ns for part in parts),
        host_waits_ns=sum(part.host_waits_ns for part in parts),
        gpu_waits_ns=sum(part.gpu_waits_ns for part in parts),
        overlapped_ns=sum(part.overlapped_ns for part in parts),
        unobserved_ns=sum(part.unobserved_ns for part in parts),
    )


def merge_hosts(parts: Sequence[HostContext]) -> HostContext:
    """Return one host context: times add up, the quota is the last one's, for it replaced the rest."""  # noqa: E501
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[-1],
        cpu_throttled_ns=_known([part.cpu_throttled_ns for part in parts]),
        cpu_used_ns=_known([part.cpu_used_ns for part in parts]),
        pressure_ns=_tables([part.pressure_ns for part in parts], _plus),
    )


def _plus(one: int, other: int) -> int:
    return one + other


def _known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tables(
    tables: Sequence[Mapping[_Key, _Value]], add: Callable[[_Value, _Value], _Value]
) -> dict[_Key, _Value]:
    total: dict[_Key, _Value] = {}
    for table in tables:
        for key, value in table.items():
            total[key] = add(total[key], value) if key in total else value
    return total


def _operations(one: Operation, other: Operation) -> Operation:
    return Operation(
        calls=one.calls + other.calls,
        errors=one.errors + other.errors,
        bytes=one.bytes + other.bytes,
        duration_ns=one.duration_ns + other.duration_ns,
    )


def _histograms(one: Histogram, other: Histogram) -> Histogram:
    pairs = zip_longest(one.counts, other.counts, fillvalue=0)
    return Histogram(counts=tuple(a + b for a, b in pairs), sum_ns=one.sum_ns + other.sum_ns)


def _memories(one: Memory, other: Memory) -> Memory:
    return Memory(
        requested_bytes=one.requested_bytes + other.requested_bytes,
        peak_bytes=one.peak_bytes + other.peak_bytes,
        allocations=one.allocations + other.allocations,
        frees=one.frees + other.frees,
        failures=one.failures + other.failures,
        failed_bytes=other.failed_bytes or one.failed_bytes,
    )


def _open_calls(one: OpenCall, other: OpenCall) -> OpenCall:
    oldest = max(one, other, key=lambda call: call.oldest_ns)
    return OpenCall(
        calls=one.calls + other.calls,
        blocked_ns=one.blocked_ns + other.blocked_ns,
        oldest_ns=oldest.oldest_ns,
        oldest_symbol=oldest.oldest_symbol,
    )


def _issue_ns(parts: Sequence[Series]) -> int | None:
    """Return the mean cost of a launch, weighted by launches."""
    weights = [
        (part.issue_ns, max(1, part.operations.get(Slot.LAUNCH, Operation()).calls))
        for part in parts
        if part.issue_ns is not None
    ]
    total = sum(weight for _, weight in weights)
    return sum(cost * weight for cost, weight in weights) // total if weights else None
