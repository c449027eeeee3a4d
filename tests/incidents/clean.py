"""Takes names out of a recording and cuts it, so that it can be kept as test data.

Usage: python -m tests.incidents.clean IN OUT [--keep PID,PID] [--from SECONDS] [--until SECONDS]
    [--every NUMBER]

Nodes, devices, processes and containers get names by number; times begin anew. What was
measured stays as it is. With --keep only these processes stay, and what is theirs; with --every
only each so manyth snapshot, as counters are totals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from gpugauge.codec.recording import RecordingReader, RecordingWriter
from gpugauge.model.device import Device
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import Series, Snapshot
from gpugauge.model.workload import UNKNOWN, Owner, Scope

BEGAN_UNIX_NS = 1_800_000_000_000_000_000
BEGAN_MONOTONIC_NS = 1_000_000_000_000
FIRST_PID = 1000
SECOND = 1_000_000_000


class Cleaner:
    """Gives the same new name to the same thing throughout a recording."""

    def __init__(self, keep: Collection[int] = ()) -> None:
        """Begin; `keep` holds pids, none for all."""
        self._keep = frozenset(keep)
        self._numbers: dict[tuple[str, object], int] = {}
        self._first: Snapshot | None = None
        self._owners: set[Owner] = set()

    def clean(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot without names."""
        self._first = self._first or snapshot
        processes = [p for p in snapshot.processes if not self._keep or p.pid in self._keep]
        self._owners.update(p.owner for p in processes)
        first = self._first
        return replace(
            snapshot,
            node="node-1",
            number=snapshot.number - first.number + 1,
            time_unix_ns=BEGAN_UNIX_NS + snapshot.time_unix_ns - first.time_unix_ns,
            time_monotonic_ns=self._time(snapshot.time_monotonic_ns),
            linux_version=".".join(snapshot.linux_version.split(".")[:2]),
            processes=tuple(self._process(p) for p in processes),
            series=tuple(self._series(s) for s in snapshot.series if self._mine(s.owner)),
            times=tuple(
                replace(t, owner=self._owner(t.owner))
                for t in snapshot.times
                if self._mine(t.owner)
            ),
            devices=tuple(self._device(d) for d in snapshot.devices),
            device_use=tuple(
                replace(u, gpu_uuid=self._uuid(u.gpu_uuid)) for u in snapshot.device_use
            ),
            hosts=tuple(
                replace(h, owner=self._owner(h.owner))
                for h in snapshot.hosts
                if self._mine(h.owner)
            ),
            entitlements=(),
            entitlement_gaps=(),
            agent=replace(
                snapshot.agent, nvml_error="", pods_error="", pod_events=None, load_score=None
            ),
        )

    def _number(self, what: str, name: object) -> int:
        return self._numbers.setdefault(
            (what, name), 1 + sum(kind == what for kind, _ in self._numbers)
        )

    def _mine(self, owner: Owner) -> bool:
        return not self._keep or owner in self._owners

    def _time(self, monotonic_ns: int) -> int:
        assert self._first is not None
        return max(1, BEGAN_MONOTONIC_NS + monotonic_ns - self._first.time_monotonic_ns)

    def _uuid(self, uuid: str) -> str:
        if uuid in ("", UNKNOWN):
            return uuid
        kind = "MIG" if uuid.startswith("MIG-") else "GPU"
        return f"{kind}-00000000-0000-0000-0000-{self._number('device', uuid):012}"

    def _pid(self, pid: int) -> int:
        return FIRST_PID + self._number("process", pid)

    def _owner(self, owner: Owner) -> Owner:
        if owner.scope is Scope.HOST or owner.scope is Scope.UNKNOWN:
            return Owner(owner.scope, reason=owner.reason, traced=owner.traced)
        number = self._number("owner", owner)
        container_id = f"{number:064x}"
        if owner.scope is Scope.CONTAINER:
            return Owner(owner.scope, container_id=container_id, traced=owner.traced)
        workload = f"job-{self._number('workload', (owner.namespace, owner.workload))}"
        return Owner(
            owner.scope, namespace="default", pod=f"{workload}-{number}", container="main",
            workload=workload, workload_kind=owner.workload_kind, pod_uid=f"uid-{number}",
            container_id=container_id, traced=owner.traced,
        )  # fmt: skip

    def _process(self, process: Process) -> Process:
        return replace(
            process,
            pid=self._pid(process.pid),
            comm="python3" if process.comm.startswith("p") else "program",
            owner=self._owner(process.owner),
            cgroup_id=self._number("cgroup", process.cgroup_id),
            started_ns=self._time(process.started_ns),
            devices=tuple(self._process_device(d) for d in process.devices),
            contexts=tuple(
                replace(c, gpu_uuid=self._uuid(c.gpu_uuid), created_ns=self._time(c.created_ns))
                for c in process.contexts
            ),
        )

    def _process_device(self, device: ProcessDevice) -> ProcessDevice:
        return replace(device, gpu_uuid=self._uuid(device.gpu_uuid), histograms={})

    def _series(self, series: Series) -> Series:
        return replace(
            series,
            owner=self._owner(series.owner),
            gpu_uuid=self._uuid(series.gpu_uuid),
            histograms={},
        )

    def _device(self, device: Device) -> Device:
        listed = device.processes
        if listed is not None:
            kept = [p for p in listed if not self._keep or p.pid in self._keep]
            listed = tuple(replace(p, pid=self._pid(p.pid)) for p in kept)
        return replace(
            device,
            uuid=self._uuid(device.uuid),
            pci_bus_id=f"00000000:{device.index:02X}:00.0",
            mig_parent_uuid=self._uuid(device.mig_parent_uuid),
            processes=listed,
        )


def cleaned(snapshots: Iterable[Snapshot], keep: Collection[int] = ()) -> Iterator[Snapshot]:
    """Yield the snapshots without names."""
    cleaner = Cleaner(keep)
    return (cleaner.clean(snapshot) for snapshot in snapshots)


def cut(
    snapshots: Iterable[Snapshot], from_s: float, until_s: float, every: int = 1
) -> Iterator[Snapshot]:
    """Yield each so manyth snapshot between two times since the first."""
    began = None
    for number, snapshot in enumerate(snapshots):
        began = began or snapshot.time_monotonic_ns
        elapsed_s = (snapshot.time_monotonic_ns - began) / SECOND
        if number % every == 0 and from_s <= elapsed_s <= until_s:
            yield snapshot


def write(path: Path, snapshots: Iterable[Snapshot]) -> int:
    """Write a recording and return how many snapshots it holds."""
    with RecordingWriter(path) as writer:
        for snapshot in snapshots:
            writer.write(snapshot)
        return writer.snapshots


def main() -> int:
    """Clean a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--keep", default="", help="pids, as in the source")
    parser.add_argument("--from", dest="from_s", type=float, default=0.0)
    parser.add_argument("--until", dest="until_s", type=float, default=float("inf"))
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    keep = [int(pid) for pid in given.keep.split(",") if pid]
    part = cut(RecordingReader(given.source), given.from_s, given.until_s, given.every)
    count = write(given.target, cleaned(part, keep))
    print(f"{given.target}: {count} snapshots, {given.target.stat().st_size} bytes")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
