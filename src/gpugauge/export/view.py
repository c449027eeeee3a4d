"""A snapshot made ready for export: labels cleaned, owners of one label set added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from gpugauge.attribution.names import clean
from gpugauge.export.budget import Admission, SeriesBudget
from gpugauge.export.merge import merge_hosts, merge_series, merge_times
from gpugauge.model.device import Device
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import (
    Entitlement,
    EntitlementGap,
    HostContext,
    OwnerTime,
    Series,
    Snapshot,
)
from gpugauge.model.workload import UNKNOWN, Owner
from gpugauge.settings import PriceSettings

OwnerLabels = tuple[str, str, str, str, str]
OWNERS_KEPT = 4096
OTHER: OwnerLabels = ("other", "other", "other", "other", "other")
"""The owner of what the series budget has no room for."""

_Part = TypeVar("_Part", Series, OwnerTime, HostContext, Entitlement, EntitlementGap)


@dataclass(frozen=True, slots=True)
class View:
    """What the samplers of the metric table read."""

    snapshot: Snapshot
    findings: Sequence[Finding]
    series: Mapping[tuple[str, ...], Series]
    """By the WORKLOAD labels."""
    times: Mapping[OwnerLabels, OwnerTime]
    hosts: Mapping[OwnerLabels, HostContext]
    entitled: Mapping[tuple[str, ...], int]
    """Devices by the OWNER labels and the resource."""
    gaps: Mapping[tuple[str, ...], int]
    """Containers by the WORKLOAD labels and the kind of the gap."""
    kinds: Mapping[OwnerLabels, str]
    """Kind of workload by owner."""
    folded: int
    """Owners added up in OTHER."""
    price: PriceSettings
    """What devices cost."""
    budget: SeriesBudget
    """Counts what this view's rendering leaves out."""


@lru_cache(OWNERS_KEPT)
def owner_labels(owner: Owner) -> OwnerLabels:
    """Return the values of the OWNER labels."""
    return (
        clean(owner.namespace),
        clean(owner.pod),
        clean(owner.container),
        clean(owner.workload),
        owner.scope.value,
    )


def labels_of(device: Device) -> tuple[str, str, str]:
    """Return the values of the DEVICE labels of one that NVML lists."""
    return clean(device.uuid) or UNKNOWN, str(device.index), clean(device.model)


def device_labels(snapshot: Snapshot, gpu_uuid: str) -> tuple[str, str, str]:
    """Return the values of the DEVICE labels; a device that NVML does not list is unknown."""
    for device in snapshot.devices:
        if device.uuid == gpu_uuid:
            return labels_of(device)
    return clean(gpu_uuid) or UNKNOWN, UNKNOWN, UNKNOWN


def make_view(
    snapshot: Snapshot,
    admission: Admission,
    budget: SeriesBudget,
    findings: Sequence[Finding] = (),
    price: PriceSettings | None = None,
) -> View:
    """Return the view of a snapshot; owners beyond the node's budget are added up in OTHER."""
    series = _grouped(snapshot.series)
    times, hosts = _grouped(snapshot.times), _grouped(snapshot.hosts)
    devices = {labels: len({part.gpu_uuid for part in parts}) for labels, parts in series.items()}
    allotted = (_grouped(snapshot.entitlements), _grouped(snapshot.entitlement_gaps))
    for labels in (*times, *hosts, *allotted[0], *allotted[1]):
        devices.setdefault(labels, 1)
    admitted = admission.admit(devices)

    def place(labels: OwnerLabels) -> OwnerLabels:
        return labels if labels in admitted else OTHER

    by_workload: dict[tuple[str, ...], list[Series]] = {}
    kinds = {}
    for labels, parts in series.items():
        placed = place(labels)
        kinds[placed] = clean(parts[0].owner.workload_kind)
        for part in parts:
            key = (*placed[:4], clean(part.gpu_uuid) or UNKNOWN, placed[4])
            by_workload.setdefault(key, []).append(part)
    by_owner: dict[OwnerLabels, list[OwnerTime]] = {}
    for labels, owner_times in times.items():
        by_owner.setdefault(place(labels), []).extend(owner_times)
    entitled: dict[tuple[str, ...], int] = {}
    for entitlement in snapshot.entitlements:
        key = (*place(owner_labels(entitlement.owner)), clean(entitlement.resource))
        entitled[key] = entitled.get(key, 0) + 1
    gaps: dict[tuple[str, ...], int] = {}
    for gap in snapshot.entitlement_gaps:
        whose = place(owner_labels(gap.owner))
        gap_key = (*whose[:4], clean(gap.gpu_uuid) or UNKNOWN, whose[4], gap.kind.value)
        gaps[gap_key] = gaps.get(gap_key, 0) + 1
    return View(
        snapshot=snapshot,
        findings=findings,
        series={key: merge_series(parts) for key, parts in sorted(by_workload.items())},
        times={key: merge_times(parts) for key, parts in sorted(by_owner.items())},
        # Pressure and quota of strangers do not add up to anything: those folded are left out.
        hosts={key: merge_hosts(hosts[key]) for key in sorted(hosts) if key in admitted},
        entitled=dict(sorted(entitled.items())),
        gaps=dict(sorted(gaps.items())),
        kinds={key: kind for key, kind in sorted(kinds.items()) if key != OTHER},
        folded=len(devices) - len(admitted),
        price=price or PriceSettings(),
        budget=budget,
    )


def _grouped(parts: Iterable[_Part]) -> dict[OwnerLabels, list[_Part]]:
    groups: dict[OwnerLabels, list[_Part]] = {}
    for part in parts:
        groups.setdefault(owner_labels(part.owner), []).append(part)
    return groups
