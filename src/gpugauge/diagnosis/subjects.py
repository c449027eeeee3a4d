"""From snapshots to subjects: who is there, what moved, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.baseline import Baseline
from gpugauge.diagnosis.history import History
from gpugauge.diagnosis.subject import Key, Subject, workload_key
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import Series, Snapshot
from gpugauge.model.workload import Owner, Scope

SECOND = 1_000_000_000
FORGET_SECONDS = 3600
WHOLE = (Scope.POD, Scope.CONTAINER)
LIMIT_BASELINES = 4096
LIMIT_SUBJECTS = 4096
ROWS_PER_TICK = 40
"""Points taken a tick and kind: with more workloads each has one every second or third tick."""
SPARSE_SECONDS = 2.0
"""Snapshots that come more seldom are all taken whole."""
HOST_STALE_SECONDS = 12.0
"""After so long without any change, an owner's CPU side has really stood still."""


class Subjects:
    """All workloads on all devices of one node."""

    def __init__(self, history: History, gap_seconds: float) -> None:
        """Begin with nothing known.

        Args:
            history: where the points go.
            gap_seconds: snapshots further apart are not compared.
        """
        self._history = history
        self._gap_seconds = gap_seconds
        self._before: Snapshot | None = None
        self._hosts: dict[Owner, tuple[list[float], float]] = {}
        """Totals at the last reading, and the seconds since."""
        self._baselines: dict[tuple[object, ...], Baseline] = {}
        self._processes: dict[int, tuple[list[float], int]] = {}
        self.all: dict[Key, Subject] = {}
        self._orders = count()
        self._tick = 0
        self._hosts_seen: object = None
        self.gaps = 0
        """Times that snapshots could not be compared: gaps, restarts, clocks that jumped."""
        self.refused = 0
        """Subjects that there was no room for."""

    def move(self, snapshot: Snapshot) -> list[Subject]:
        """Take a snapshot in, and return the subjects that are in it."""
        seconds = self._seconds_since_before(snapshot)
        now_ns = snapshot.time_monotonic_ns
        on_device: dict[tuple[Owner, str], list[tuple[Process, ProcessDevice]]] = {}
        for process in snapshot.processes:
            for device in process.devices:
                on_device.setdefault((process.owner, device.gpu_uuid), []).append((process, device))
        models = {device.uuid: device.model for device in snapshot.devices}
        self._tick += 1
        # Counters are totals, so a busy node may take each workload's point a tick later.
        stride = 1 + len(self.all) // ROWS_PER_TICK if (seconds or 0.0) < SPARSE_SECONDS else 1
        present = []
        for key, of, processes in _parts(snapshot, on_device):
            subject = self.all.get(key)
            if subject is None:
                if len(self.all) >= LIMIT_SUBJECTS:
                    self.refused += 1
                    continue
                subject = self._new(key, of, snapshot, models, processes)
                if self._is_new_born(processes):
                    subject.move(of, now_ns, seconds)
            else:
                absent = self._before is None or subject.seen_ns != self._before.time_monotonic_ns
                if absent or seconds is None:
                    subject.move(of, now_ns, None)
                elif (self._tick + subject.order) % stride == 0 or not _all_alive(processes):
                    subject.move(of, now_ns, (now_ns - subject.row_ns) / SECOND)
                else:
                    subject.of = of
            subject.seen_ns = now_ns
            subject.move_processes(processes, now_ns)
            present.append(subject)
        self._move_hosts(snapshot, seconds)
        self._move_processes(snapshot, seconds, stride)
        self._forget(now_ns)
        self._before = snapshot
        return present

    def host_window(self, owner: Owner, window_seconds: float) -> list[float] | None:
        """Return the last window of an owner's CPU side."""
        if owner not in self._hosts:
            return None
        track = self._history.track(("host", owner), c.HOST_WIDTH, c.HOST_FIRST_GAUGE)
        return track.fine.window(window_seconds) if track is not None else None

    def _seconds_since_before(self, snapshot: Snapshot) -> float | None:
        before = self._before
        if before is None:
            return None
        seconds = (snapshot.time_monotonic_ns - before.time_monotonic_ns) / SECOND
        restarted = snapshot.number <= before.number or snapshot.node != before.node
        if restarted or not 0 < seconds <= self._gap_seconds:
            self.gaps += 1
            if restarted or seconds <= 0:  # process numbers and clocks begin anew
                for key in self.all:
                    self._history.forget(key)
                self.all.clear()
                self._hosts.clear()
                self._processes.clear()
            return None
        return seconds

    def _is_new_born(self, processes: list[tuple[Process, ProcessDevice]]) -> bool:
        """Whether all of it began after the snapshot before: then it counts from zero."""
        before = self._before
        return (
            before is not None
            and bool(processes)
            and all(p.complete and p.started_ns >= before.time_monotonic_ns for p, _ in processes)
        )

    def _new(
        self,
        key: Key,
        of: Series | ProcessDevice,
        snapshot: Snapshot,
        models: dict[str, str],
        processes: list[tuple[Process, ProcessDevice]],
    ) -> Subject:
        owner, gpu_uuid, number = key
        shared = workload_key(owner, models.get(gpu_uuid, ""), number)
        baseline = self._baselines.pop(shared, None) or Baseline()
        self._baselines[shared] = baseline  # the one used last is the last to go
        if len(self._baselines) > LIMIT_BASELINES:
            self._baselines.pop(next(iter(self._baselines)))
        now_ns = snapshot.time_monotonic_ns
        subject = Subject(
            key=key,
            baseline=baseline,
            track=self._history.track(key, c.WIDTH, c.FIRST_GAUGE),
            first_ns=now_ns,
            of=of,
            totals=c.totals(of),
            last_work_ns=now_ns,
            errors_before=of.errors,
            learned_ns=now_ns,
            row_ns=now_ns,
            order=next(self._orders),
        )
        if self._is_new_born(processes):
            subject.totals, subject.errors_before = [0.0] * c.WIDTH, {}
            if of.known_idle_ns is not None:
                subject.totals[c.IDLE_KNOWN] = 1.0
        self.all[key] = subject
        return subject

    def _move_hosts(self, snapshot: Snapshot, seconds: float | None) -> None:
        if snapshot.hosts is self._hosts_seen and seconds is not None:
            # The agent repeats what it read until it reads again.
            self._hosts = {o: (t, waited + seconds) for o, (t, waited) in self._hosts.items()}
            return
        self._hosts_seen = snapshot.hosts
        hosts = {host.owner: host for host in snapshot.hosts}
        times = {time.owner: time for time in snapshot.times}
        totals = {o: c.host_totals(hosts.get(o), times.get(o)) for o in hosts.keys() | times.keys()}
        kept = {}
        for owner, now in totals.items():
            before, waited = self._hosts.get(owner, (now, 0.0))
            waited = 0.0 if seconds is None else waited + seconds
            # The CPU side is read more seldom than the counters: what did not move at all
            # was not read again, and its time belongs to the next reading.
            stale = now[: c.OBSERVED] == before[: c.OBSERVED] and waited < HOST_STALE_SECONDS
            if seconds is None or not waited:
                kept[owner] = (now, 0.0)
            elif stale:
                kept[owner] = (before, waited)
            else:
                kept[owner] = (now, 0.0)
                track = self._history.track(("host", owner), c.HOST_WIDTH, c.HOST_FIRST_GAUGE)
                if track is not None:
                    track.add(c.host_point(before, now, waited))
        for owner in self._hosts.keys() - kept.keys():
            self._history.forget(("host", owner))
        self._hosts = kept

    def _move_processes(self, snapshot: Snapshot, seconds: float | None, stride: int) -> None:
        if seconds is None:
            self._processes.clear()
        alive: set[int] = set()
        now_ns = snapshot.time_monotonic_ns
        for process in snapshot.processes:
            number = process.number
            if not process.alive:
                continue
            alive.add(number)
            before = self._processes.get(number)
            if before is not None and (self._tick + number) % stride:
                continue
            now = c.process_totals(process)
            self._processes[number] = (now, now_ns)
            track = self._history.track(number, c.PROCESS_WIDTH, c.PROCESS_FIRST_GAUGE)
            if before is not None and track is not None:
                track.add(c.process_point(before[0], now, (now_ns - before[1]) / SECOND))
        for number in self._processes.keys() - alive:
            del self._processes[number]
            self._history.forget(number)

    def _forget(self, now_ns: int) -> None:
        old = [k for k, s in self.all.items() if now_ns - s.seen_ns > FORGET_SECONDS * SECOND]
        for key in old:
            del self.all[key]
            self._history.forget(key)


def _parts(
    snapshot: Snapshot,
    on_device: dict[tuple[Owner, str], list[tuple[Process, ProcessDevice]]],
) -> Iterator[tuple[Key, Series | ProcessDevice, list[tuple[Process, ProcessDevice]]]]:
    """Split a snapshot into subjects: pods as a whole, processes of the host one by one."""
    for series in snapshot.series:
        if series.owner.scope in WHOLE:
            key = (series.owner, series.gpu_uuid, 0)
            yield key, series, on_device.get((series.owner, series.gpu_uuid), [])
    for (owner, gpu_uuid), processes in on_device.items():
        if owner.scope not in WHOLE:
            for process, device in processes:
                yield (owner, gpu_uuid, process.number), device, [(process, device)]


def _all_alive(processes: list[tuple[Process, ProcessDevice]]) -> bool:
    return all(process.alive for process, _ in processes)
