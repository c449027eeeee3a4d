"""Entitlement beside use over time: who used which device since the agent watches.

Nobody is accused on what is not known. Use without entitlement needs an answer
of the kubelet to a question asked after the use was seen: a pod that is younger
than the last answer, or all pods while the kubelet is silent, are not named. A
device counts as never used once it was held for a while; a process that was
there before its probes, or that NVML lists and no probe saw, may have used it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpugauge.attribution.entitled import Use, compare
from gpugauge.model.abi import Slot
from gpugauge.model.device import Device
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import Entitlement, EntitlementGap, GapKind
from gpugauge.model.workload import UNKNOWN, Owner, Scope

UNUSED_SECONDS = 120.0
"""A device is held unused for so long before it is said: images load, programs start."""
FORGET_SECONDS = 300.0
"""Uses of a pod that holds nothing and does nothing are kept so long."""

WORK = (
    Slot.LAUNCH,
    Slot.GRAPH_LAUNCH,
    Slot.SUBMIT_OTHER,
    Slot.SET,
    Slot.COPY_HTOD,
    Slot.COPY_DTOH,
    Slot.COPY_DTOD,
    Slot.COPY_PEER,
    Slot.COPY_UNKNOWN,
)
"""What uses a device: a context alone does not."""

_Held = tuple[str, str, str, str]


@dataclass(slots=True)
class _Seen:
    use: Use
    first_at: float
    last_at: float


class EntitlementGaps:
    """Remembers uses and entitlements. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Make one that has seen nothing.

        Args:
            clock: In seconds, the same that tells when the kubelet was asked.
        """
        self._clock = clock
        self._work: dict[tuple[str, str, str, str], _Seen] = {}
        self._maybe: dict[tuple[str, str, str], _Seen] = {}
        self._held: dict[_Held, float] = {}
        self._watched: set[int] = set()

    def saw(self, processes: Iterable[Process]) -> None:
        """Take in who works: the processes of a snapshot."""
        now = self._clock()
        self._watched = set()
        for process in processes:
            owner = process.owner
            if owner.scope is not Scope.POD:
                continue
            if process.complete:
                self._watched.add(process.pid)
            elif process.alive:
                self._may_use(owner, UNKNOWN, now)  # what it did before is not known
            for on in process.devices:
                if not on.claimed and _works(on):
                    self._uses(owner, on.gpu_uuid, now)

    def listed(self, devices: Sequence[Device], owner_of: Callable[[int], Owner]) -> None:
        """Take in whom NVML lists, for processes that no probe sees.

        Args:
            devices: With the processes on each.
            owner_of: Owner by pid.
        """
        now = self._clock()
        for device in devices:
            for listed in device.processes or ():
                if listed.pid not in self._watched:
                    owner = owner_of(listed.pid)
                    if owner.scope is Scope.POD:
                        self._may_use(owner, device.uuid, now)

    def gaps(
        self,
        entitlements: Sequence[Entitlement],
        *,
        asked_at: float,
        mig_parents: Mapping[str, str] | None = None,
    ) -> tuple[EntitlementGap, ...]:
        """Return where entitlement and use differ now.

        Args:
            entitlements: All of this node, by the kubelet's last answer.
            asked_at: When the question of that answer was asked, by the clock.
            mig_parents: UUID of the GPU by the UUID of its MIG instances.
        """
        now = self._clock()
        held = {_held(one): self._held.get(_held(one), now) for one in entitlements}
        self._held = held
        self._forget({(one.owner.namespace, one.owner.pod) for one in entitlements}, now)
        work = [seen.use for seen in self._work.values()]
        maybe = [seen.use for seen in self._maybe.values()]
        strangers = compare(entitlements, work, mig_parents=mig_parents).not_entitled
        idle = compare(entitlements, work + maybe, mig_parents=mig_parents).not_used
        found = {
            _use_key(use): EntitlementGap(
                owner=use.owner, gpu_uuid=use.gpu_uuid, kind=GapKind.NOT_ENTITLED
            )
            for use in strangers
            if self._work[_use_key(use)].first_at < asked_at
        }
        unused = {
            (*_held(one)[:3], one.gpu_uuid): EntitlementGap(
                owner=one.owner, gpu_uuid=one.gpu_uuid, kind=GapKind.NOT_USED
            )
            for one in idle
            if one.owner.traced and now - held[_held(one)] >= UNUSED_SECONDS
        }
        return (*found.values(), *unused.values())

    def _uses(self, owner: Owner, gpu_uuid: str, now: float) -> None:
        use = Use(owner, gpu_uuid)
        seen = self._work.setdefault(_use_key(use), _Seen(use, now, now))
        seen.use, seen.last_at = use, now

    def _may_use(self, owner: Owner, gpu_uuid: str, now: float) -> None:
        use = Use(owner, gpu_uuid)
        key = (owner.namespace, owner.pod, gpu_uuid)
        seen = self._maybe.setdefault(key, _Seen(use, now, now))
        seen.last_at = now

    def _forget(self, holders: set[tuple[str, str]], now: float) -> None:
        for table in (self._work, self._maybe):
            old = [
                key
                for key, seen in table.items()
                if now - seen.last_at > FORGET_SECONDS
                and (seen.use.owner.namespace, seen.use.owner.pod) not in holders
            ]
            for key in old:
                del table[key]  # type: ignore[arg-type]


def _works(on: ProcessDevice) -> bool:
    return any((found := on.operations.get(slot)) is not None and found.calls for slot in WORK)


def _use_key(use: Use) -> tuple[str, str, str, str]:
    return use.owner.namespace, use.owner.pod, use.owner.container, use.gpu_uuid


def _held(one: Entitlement) -> _Held:
    return one.owner.namespace, one.owner.pod, one.owner.container, one.device_id
