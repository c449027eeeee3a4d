"""Entitlement beside use: who uses a GPU it never asked for, who holds one it never uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpugauge.model.snapshot import Entitlement
from gpugauge.model.workload import UNKNOWN, Owner, Scope


@dataclass(frozen=True, slots=True)
class Use:
    """An owner that has used a device."""

    owner: Owner
    gpu_uuid: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where entitlement and use differ. What is not known accuses nobody."""

    not_entitled: tuple[Use, ...]
    """They use a device that the kubelet did not give to their pod."""
    not_used: tuple[Entitlement, ...]
    """The kubelet gave it to them, and no container of their pod has used it."""


def compare(
    entitlements: Iterable[Entitlement],
    uses: Iterable[Use],
    *,
    mig_parents: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare what pods were given with what they used.

    Pods are compared, not containers: devices of an init container go on to the
    app container. A pod with an entitlement whose device is unknown may be using
    that one, so it is not accused; use of an unknown device counts as any of the
    pod's own. A MIG instance and its GPU count as one where either is meant.

    Args:
        entitlements: All of this node: an empty collection because the kubelet was not
            asked must not be passed.
        uses: Owners and the devices they submitted work to, for as long as was watched.
        mig_parents: UUID of the GPU by the UUID of its MIG instances.
    """
    parents = mig_parents or {}
    given: dict[tuple[str, str], list[Entitlement]] = {}
    for one in entitlements:
        given.setdefault(_pod(one.owner), []).append(one)
    used: dict[tuple[str, str], set[str]] = {}
    strangers: dict[Use, None] = {}
    for use in uses:
        if use.owner.scope is not Scope.POD:
            continue
        pod = _pod(use.owner)
        used.setdefault(pod, set()).add(use.gpu_uuid)
        held = [one.gpu_uuid for one in given.get(pod, ())]
        if use.gpu_uuid != UNKNOWN and not _meets(use.gpu_uuid, held, parents):
            strangers[use] = None
    idle = [
        one
        for pod, held in given.items()
        for one in held
        if one.gpu_uuid != UNKNOWN and not _meets(one.gpu_uuid, used.get(pod, ()), parents)
    ]
    return Comparison(tuple(strangers), tuple(idle))


def _pod(owner: Owner) -> tuple[str, str]:
    return owner.namespace, owner.pod


def _meets(uuid: str, others: Collection[str], parents: Mapping[str, str]) -> bool:
    return any(
        other in (uuid, UNKNOWN) or parents.get(other) == uuid or parents.get(uuid) == other
        for other in others
    )
