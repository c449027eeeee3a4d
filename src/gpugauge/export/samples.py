"""From a view to samples: the small parts that the metric table is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from gpugauge.attribution.names import clean
from gpugauge.export.metric import BUCKET_INDEXES, Distribution, Labels, Sampler, Value
from gpugauge.export.view import View, device_labels, labels_of, owner_labels
from gpugauge.model.abi import HISTOGRAM_FIRST_LOG2, HISTOGRAM_STEP_LOG2, Cause, Loss, Slot
from gpugauge.model.cluster import OffSwitch
from gpugauge.model.device import Device
from gpugauge.model.process import Histogram, Memory, Operation
from gpugauge.model.snapshot import (
    AgentHealth,
    DeviceUse,
    HostContext,
    OwnerTime,
    Series,
    Snapshot,
)
from gpugauge.units import seconds

Part = tuple[Labels, Value]
NO_CALLS = Operation()

BUCKET_BOUNDS = tuple(
    seconds(1 << (HISTOGRAM_FIRST_LOG2 + HISTOGRAM_STEP_LOG2 * index)) for index in BUCKET_INDEXES
)
"""Upper bounds of the exported buckets, in seconds; +Inf is implied."""

CAUSES = tuple((cause, (cause.name.lower(),)) for cause in Cause)
"""Every cause with its label: an enumeration is slow to iterate over."""

COPY_DIRECTIONS = {
    Slot.COPY_HTOD: "htod",
    Slot.COPY_DTOH: "dtoh",
    Slot.COPY_DTOD: "dtod",
    Slot.COPY_PEER: "peer",
    Slot.COPY_UNKNOWN: "unknown",
}

UNTRACKED_ALLOCATIONS = (Loss.ALLOCATIONS_FULL, Loss.POINTER_UNKNOWN, Loss.POINTER_REPLACED)
LOST_EVENTS = (Loss.RING_FULL, Loss.RING_LIMITED)
NOT_LOST = (Loss.DUPLICATE_HITS, Loss.ABANDONED_CALLS)
LOST_UPDATES = tuple(
    loss for loss in Loss if loss not in UNTRACKED_ALLOCATIONS + LOST_EVENTS + NOT_LOST
)

ERRORS_PER_WORKLOAD = 8
"""Pairs of operation and code with a series of their own; the rest is `code="other"`."""


def workload(pick: Callable[[Series], Iterable[Part]]) -> Sampler:
    """Return a sampler over owners and devices; `pick` gives the labels to add, and values."""

    def sample(view: View) -> Iterable[Part]:
        for labels, series in view.series.items():
            for extra, value in pick(series):
                yield labels + extra, value

    return sample


def known(value: Callable[[Series], float | None]) -> Sampler:
    """Return a sampler of one value, absent where it is unknown."""

    def pick(series: Series) -> Iterable[Part]:
        found = value(series)
        return () if found is None else (((), found),)

    return workload(pick)


def calls(*slots: Slot) -> Sampler:
    """Return a sampler of the calls of some slots together."""
    return known(lambda series: sum(series.operations.get(s, NO_CALLS).calls for s in slots))


def copies(value: Callable[[Operation], float]) -> Sampler:
    """Return a sampler by direction, of the directions that were ever used."""
    return workload(
        lambda series: (
            ((direction,), value(series.operations[slot]))
            for slot, direction in COPY_DIRECTIONS.items()
            if slot in series.operations and series.operations[slot].calls
        )
    )


def by_cause(value: Callable[[Series, Cause], float]) -> Sampler:
    """Return a sampler with every cause, those that never occurred as 0."""
    return workload(lambda series: ((label, value(series, cause)) for cause, label in CAUSES))


def open_calls(series: Series) -> Iterable[Part]:
    """Return the age of open calls, for the causes that ever occurred."""
    for cause, label in CAUSES:
        call = series.open_calls.get(cause)
        if call is not None or series.blocked_ns.get(cause):
            yield label, seconds(call.blocked_ns if call else 0)


def durations(series: Series) -> Iterable[Part]:
    """Return the histograms of the causes that occurred."""
    for cause, histogram in series.histograms.items():
        if any(histogram.counts):
            yield (cause.name.lower(),), distribution(histogram)


def distribution(histogram: Histogram) -> Distribution:
    """Return a histogram over the exported bounds."""
    running = (*accumulate(histogram.counts),)
    last = len(running) - 1
    cumulative = tuple(running[min(index, last)] for index in BUCKET_INDEXES)
    return Distribution((*cumulative, running[-1]), seconds(histogram.sum_ns))


def memory(value: Callable[[Memory], float]) -> Sampler:
    """Return a sampler by memory family, absent for owners not seen from their start."""
    return workload(
        lambda series: (((f.name.lower(),), value(m)) for f, m in (series.memory or {}).items())
    )


def operation_name(slot: Slot) -> str:
    """Return the `op` label of a slot: copies and polls are one operation each."""
    return slot.name.lower().split("_")[0] if slot in _COMPOUND else slot.name.lower()


_COMPOUND = {*COPY_DIRECTIONS, Slot.POLL_READY, Slot.POLL_NOT_READY}


def errors(series: Series) -> Iterable[Part]:
    """Return failed calls by operation and code, the rare ones together."""
    counts: dict[tuple[str, str], int] = {}
    for (slot, code), count in series.errors.items():
        key = (operation_name(slot), str(code) if code >= 0 else "other")
        counts[key] = counts.get(key, 0) + count
    ranked = sorted(counts, key=lambda key: (-counts[key], key))
    result: dict[Labels, float] = {}
    for rank, ranked_key in enumerate(ranked):
        shown = ranked_key if rank < ERRORS_PER_WORKLOAD else (ranked_key[0], "other")
        result[shown] = result.get(shown, 0) + counts[ranked_key]
    return sorted(result.items())


def owner_time(value: Callable[[OwnerTime], int]) -> Sampler:
    """Return a sampler over owners, nanoseconds as seconds."""
    return lambda view: ((labels, seconds(value(time))) for labels, time in view.times.items())


def time_split(view: View) -> Iterable[Part]:
    """Return the four parts of each owner's time."""
    for labels, time in view.times.items():
        yield (*labels, "host_waits"), seconds(time.host_waits_ns)
        yield (*labels, "gpu_waits"), seconds(time.gpu_waits_ns)
        yield (*labels, "overlapped"), seconds(time.overlapped_ns)
        yield (*labels, "unobserved"), seconds(time.unobserved_ns)


def host(value: Callable[[HostContext], float | None]) -> Sampler:
    """Return a sampler over owners, absent where it is unknown."""

    def sample(view: View) -> Iterable[Part]:
        for labels, context in view.hosts.items():
            found = value(context)
            if found is not None:
                yield labels, found

    return sample


def pressure(view: View) -> Iterable[Part]:
    """Return stalled time by resource."""
    for labels, context in view.hosts.items():
        for resource, stalled_ns in sorted(context.pressure_ns.items()):
            yield (*labels, clean(resource)), seconds(stalled_ns)


def device_use(value: Callable[[DeviceUse], Iterable[Part]]) -> Sampler:
    """Return a sampler over devices and who uses them."""
    return lambda view: (
        (device_labels(view.snapshot, use.gpu_uuid) + extra, number)
        for use in view.snapshot.device_use
        for extra, number in value(use)
    )


def device(value: Callable[[Device], float | None]) -> Sampler:
    """Return a sampler over devices, absent where NVML does not say."""
    return lambda view: (
        (labels_of(entry), found)
        for entry in view.snapshot.devices
        if (found := value(entry)) is not None
    )


def device_info(view: View) -> Iterable[Part]:
    """Return what each device is."""
    snapshot = view.snapshot
    for entry in snapshot.devices:
        rest = (entry.uuid, entry.pci_bus_id, entry.compute_mode)
        mig = (entry.mig_profile, entry.mig_parent_uuid)
        labels = (*rest, *mig, snapshot.driver_version, snapshot.cuda_version)
        yield labels_of(entry) + tuple(map(clean, labels)), 1.0


def workload_info(view: View) -> Iterable[Part]:
    """Return what each owner is."""
    return (((*labels, kind), 1.0) for labels, kind in view.kinds.items())


def findings(view: View) -> Iterable[Part]:
    """Return 1 for each finding that is open."""
    found: dict[Labels, Value] = {}
    for finding in view.findings:
        whose = owner_labels(finding.owner) if finding.owner else ("", "", "", "", "")
        labels = (*whose[:4], clean(finding.gpu_uuid), whose[4])
        found[(*labels, clean(finding.rule), clean(finding.severity))] = 1.0
    return sorted(found.items())


def agent(value: Callable[[AgentHealth], float | None]) -> Sampler:
    """Return a sampler of one number of the agent itself, absent where it is unknown."""

    def sample(view: View) -> Iterable[Part]:
        found = value(view.snapshot.agent)
        return () if found is None else (((), found),)

    return sample


def agent_table(value: Callable[[AgentHealth], Mapping[str, int]]) -> Sampler:
    """Return a sampler of a table of the agent itself."""

    def sample(view: View) -> Iterable[Part]:
        counts: dict[Labels, float] = {}
        for key, count in value(view.snapshot.agent).items():
            counts[(clean(key),)] = counts.get((clean(key),), 0) + count
        return sorted(counts.items())

    return sample


def off_switches(value: Callable[[OffSwitch], float]) -> Sampler:
    """Return a sampler over the places that can switch the probes off."""
    return lambda view: (
        ((clean(each.source),), value(each)) for each in view.snapshot.agent.off_switches
    )


def losses(*which: Loss) -> Sampler:
    """Return a sampler of loss counters, those that never moved as 0."""
    return agent_table(lambda health: {w.name.lower(): health.losses.get(w, 0) for w in which})


def agent_info(view: View) -> Iterable[Part]:
    """Return the versions and the node."""
    snapshot: Snapshot = view.snapshot
    values = (snapshot.agent_version, snapshot.agent.attach_mode, snapshot.linux_version)
    return ((tuple(map(clean, (*values, snapshot.node))), 1.0),)
