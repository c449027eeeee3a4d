"""One tick as rules see it: who is where, beside whom, and how far it can be trusted."""

from __future__ import annotations

from functools import partial

from gpugauge.diagnosis.case import Case, Holder, Neighbour, Peer
from gpugauge.diagnosis.figures import figures
from gpugauge.diagnosis.subject import Subject
from gpugauge.model.device import Device
from gpugauge.model.snapshot import Snapshot
from gpugauge.model.workload import Scope
from gpugauge.settings import Settings

SECOND = 1_000_000_000
UNOBSERVED_RATIO = 0.3
PEERS_LIMIT = 128
BEFORE_SECONDS = 60.0


class _Place:
    """Who is on one device: gathered once, as each sees all the others."""

    def __init__(self, subjects: list[Subject], device: Device | None) -> None:
        known = {process.pid for s in subjects for process, _ in s.processes}
        listed = (device.processes or ()) if device is not None and known else ()
        # Where no process is known, nobody can be told apart.
        self.unseen = float(sum(process.pid not in known for process in listed))
        here = [s for s in subjects if not s.claimed]
        self._busy = {id(s): s.now.busy_ratio for s in here if s.now is not None}
        self._busy_ratio = sum(self._busy.values())
        self._neighbours = [
            (
                s,
                Neighbour(s.owner, s.key[2], s.pid, s.command, s.now, partial(_busy_before, s)),
            )
            for s in here
            if s.now is not None
        ]
        self._holders = [
            (s, (s.owner, s.of.memory_held_bytes or 0, s.pid, s.command)) for s in here
        ]

    def others_busy_ratio(self, subject: Subject) -> float:
        return max(0.0, self._busy_ratio - self._busy.get(id(subject), 0.0))

    def neighbours(self, subject: Subject) -> list[Neighbour]:
        return [neighbour for s, neighbour in self._neighbours if s is not subject]

    def holders(self, subject: Subject) -> list[Holder]:
        return [holder for s, holder in self._holders if s is not subject]


class Scene:
    """A snapshot and the subjects in it."""

    def __init__(
        self,
        snapshot: Snapshot,
        present: list[Subject],
        *,
        settings: Settings,
        first_ns: int,
        incomplete: tuple[str, ...],
    ) -> None:
        """Group the subjects by device."""
        self.snapshot = snapshot
        self.present = present
        self._settings = settings
        self._first_ns = first_ns
        self._incomplete = incomplete
        self._devices = {device.uuid: device for device in snapshot.devices}
        self._by_device: dict[str, list[Subject]] = {}
        self._by_job: dict[tuple[object, ...], list[Subject]] = {}
        for subject in present:
            self._by_device.setdefault(subject.gpu_uuid, []).append(subject)
            job = _job(subject)
            if job is not None:
                self._by_job.setdefault(job, []).append(subject)
        self._places: dict[str, _Place] = {}
        self._peers_of: dict[tuple[object, ...], list[Peer]] = {}
        self._given: dict[tuple[str, str], list[str]] = {}
        for entitlement in snapshot.entitlements:
            pod = (entitlement.owner.namespace, entitlement.owner.pod)
            self._given.setdefault(pod, []).append(entitlement.gpu_uuid)

    def case(self, subject: Subject) -> Case:
        """Return what rules look at for one subject."""
        snapshot, now_ns = self.snapshot, self.snapshot.time_monotonic_ns
        incomplete = self._incomplete
        place, device = self._place(subject.gpu_uuid), self._devices.get(subject.gpu_uuid)
        now, window = subject.now, self._settings.diagnosis.window_seconds
        fine_seconds = subject.track.fine.seconds if subject.track is not None else 0.0
        if now is not None and device is not None:
            now.others_busy_ratio = place.others_busy_ratio(subject)
            now.others_unseen = place.unseen
        if now is not None and (now.unobserved_ratio or 0.0) > UNOBSERVED_RATIO:
            incomplete += ("a part of its time",)
        whose = subject.owner
        peers = self._peers(subject)
        return Case(
            snapshot=snapshot,
            settings=self._settings.diagnosis,
            price=self._settings.price,
            owner=whose,
            gpu_uuid=subject.gpu_uuid,
            device=device,
            of=subject.of,
            processes=subject.processes,
            now=now,
            usual_seconds_ago=(now_ns - subject.usual_ns) / SECOND,
            recent_work_per_second=subject.recent_work_per_second,
            baseline=subject.baseline,
            starting=self._is_starting(subject, now_ns),
            after_gap=fine_seconds < 0.9 * window,
            idle_for_seconds=(now_ns - subject.last_work_ns) / SECOND,
            quiet_processes={
                number: (now_ns - since) / SECOND
                for number, since in subject.quiet_since_ns.items()
            },
            checkpoint_seconds=subject.checkpoint_seconds(now_ns),
            burst_seconds=subject.burst_seconds(now_ns),
            neighbours=place.neighbours(subject),
            peers=peers,
            errors=subject.recent_errors(now_ns - int(window * SECOND)),
            holders=place.holders(subject),
            given=self._given.get((whose.namespace, whose.pod), []),
            claimed=subject.claimed,
            now_seconds=max(window, subject.row_seconds),
            open_now=False,
            incomplete=incomplete,
        )

    def _place(self, gpu_uuid: str) -> _Place:
        place = self._places.get(gpu_uuid)
        if place is None:
            place = _Place(self._by_device[gpu_uuid], self._devices.get(gpu_uuid))
            self._places[gpu_uuid] = place
        return place

    def _peers(self, subject: Subject) -> list[Peer]:
        """Return all of its job, itself included, made once a tick."""
        job = _job(subject)
        if job is None:
            return []
        peers = self._peers_of.get(job)
        if peers is None:
            listed = self._by_job[job][:PEERS_LIMIT]
            peers = [(s.owner, s.gpu_uuid, s.pid, s.now) for s in listed if s.now is not None]
            self._peers_of[job] = peers
        return peers

    def _is_starting(self, subject: Subject, now_ns: int) -> bool:
        """Whether its oldest process is young; without processes, whether it is newly seen."""
        limits = self._settings.diagnosis
        least = limits.startup_seconds * SECOND
        if subject.row_seconds >= limits.window_seconds:
            least += subject.row_seconds * SECOND  # until no row reaches back into the start
        ages = [
            now_ns - process.started_ns if process.complete else least
            for process, _ in subject.processes
            if process.alive
        ]
        if ages:
            return max(ages) < least
        if self.snapshot.processes:
            return True  # its processes have ended: nothing of it can be compared
        return subject.first_ns != self._first_ns and now_ns - subject.first_ns < least


def _busy_before(subject: Subject, seconds_ago: float) -> float:
    """Return the busy share of a workload in the minute that ended so many seconds ago."""
    if subject.seen_ns - subject.first_ns < seconds_ago * SECOND:
        return 0.0  # it came later
    if subject.track is not None:
        for rows in (subject.track.fine, subject.track.coarse):
            window = rows.window(BEFORE_SECONDS, seconds_ago)
            if window is not None:
                return figures(window, None).busy_ratio
    return subject.now.busy_ratio if subject.now is not None else 0.0  # not remembered


def _job(subject: Subject) -> tuple[object, ...] | None:
    """Return what the processes of one job have in common; None where nothing tells."""
    owner = subject.owner
    if owner.scope is Scope.HOST:
        return (owner.scope, subject.command) if subject.command else None
    if not owner.workload:
        return None
    return (owner.scope, owner.namespace, owner.workload, owner.container)
