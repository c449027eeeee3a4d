"""From what Linux tells to the catalogue: scans, and side-band records between them.

A record only says which process to look at: its maps are read then, because a
record's path and addresses are those of one moment. Lost records make the next
look a full scan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from gpugauge.discovery.catalogue import Catalogue
from gpugauge.discovery.decision import User
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import Found, ProcScanner, Scan
from gpugauge.model.library import FileId
from gpugauge.model.sideband import (
    PROTECTION_EXECUTE,
    CommandSet,
    FileMapped,
    SidebandBatch,
    SidebandRecord,
    TaskEnded,
    TaskStarted,
)
from gpugauge.units import NS_PER_SECOND

FULL_SCAN_NS = 60 * NS_PER_SECOND
GATHER_SECONDS = 0.01
"""Records are gathered so long: a program that starts makes dozens, one by one. It is a part
of the 100 ms within which a library that was never seen is traced."""
GATHER_LONG_SECONDS = 0.05
"""So long where programs start all the time: half of it is what the next one waits then."""
QUIET_SECONDS = 0.2
UNKNOWN_CGROUP = 0


def cgroup_number(pid: int) -> int:
    """Return a number that tells the cgroup of a process from others, or UNKNOWN_CGROUP."""
    try:
        return hash(Path(f"/proc/{pid}/cgroup").read_bytes()) or 1
    except OSError:
        return UNKNOWN_CGROUP


class Watch:
    """Keeps a catalogue up to date with the processes of the node.

    Args:
        catalogue: Told about every process that maps a library.
        scanner: Reads /proc.
        names: The driver libraries to look for.
        cgroup_of: The cgroup of a process's container, by pid; 0 where it is not known.
        only: Tell of these files and no others; None: of all.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        scanner: ProcScanner,
        names: LibraryNames,
        cgroup_of: Callable[[int], int],
        only: Collection[FileId] | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._scanner = scanner
        self._names = names
        self._cgroup_of = cgroup_of
        self._only = only
        self._processes: Mapping[int, Found] = {}
        self._users: dict[tuple[int, int], int] = {}
        """(pid, start time) -> cgroup, of the processes that map a library."""
        self._listed: Mapping[int, str] = {}
        self._full_scan_ns: int | None = None
        self._gathered = float("-inf")

    def list_devices(self, processes: Mapping[int, str]) -> None:
        """Say which processes are known to use a GPU by other means, such as NVML.

        Args:
            processes: Why each is known, by pid: `NVML lists it on a device`.
        """
        self._listed = dict(processes)

    def refresh(self, now_ns: int) -> Scan:
        """Look for new and ended processes; at every process once in FULL_SCAN_NS.

        Args:
            now_ns: CLOCK_MONOTONIC.
        """
        if self._full_scan_ns is None or now_ns - self._full_scan_ns >= FULL_SCAN_NS:
            self._full_scan_ns = now_ns
            return self._take(self._scanner.scan())
        return self._take(self._scanner.update())

    def gather(self) -> None:
        """Wait, after the first record, for those that come with it."""
        quiet = time.monotonic() - self._gathered > QUIET_SECONDS
        time.sleep(GATHER_SECONDS if quiet else GATHER_LONG_SECONDS)
        self._gathered = time.monotonic()

    def concerns(self, batch: SidebandBatch) -> bool:
        """Return whether there is anything to handle: most of what a node starts is not."""
        return bool(batch.lost) or any(self._matters(record) for record in batch.records)

    def handle(self, batch: SidebandBatch, now_ns: int) -> bool:
        """Look at the processes that records speak of, and at no others.

        Returns:
            Whether the catalogue was told anything, so that it should decide now.
        """
        if batch.lost:
            self._full_scan_ns = None
            self.refresh(now_ns)
            return True
        changed = {record.pid for record in batch.records if self._matters(record)}
        if changed:
            self._take(self._scanner.look(changed))
        return bool(changed)

    def look(self, pids: Collection[int]) -> Scan:
        """Look again at processes that are known to have changed, and at new ones."""
        return self._take(self._scanner.update(pids))

    def _matters(self, record: SidebandRecord) -> bool:
        match record:
            case FileMapped():
                executable = record.protection & PROTECTION_EXECUTE
                return bool(executable) and self._names.match(os.fsencode(record.path))
            case CommandSet():
                return record.executed and record.pid in self._processes
            case TaskStarted():
                # A forked child maps what its parent maps, and no record says so.
                return record.pid == record.tid and record.parent_pid in self._processes
            case TaskEnded():
                return record.pid == record.tid and record.pid in self._processes
        return False

    def _take(self, scan: Scan) -> Scan:
        self._processes = scan.processes
        users: dict[FileId, list[User]] = {}
        cgroups: dict[tuple[int, int], int] = {}
        for file_id, those in scan.users().items():
            if self._only is not None and file_id not in self._only:
                continue
            for found, mapping in those:
                key = found.pid, found.start_time
                cgroup = self._users.get(key) or cgroups.get(key) or self._cgroup_of(found.pid)
                cgroups[key] = cgroup
                users.setdefault(file_id, []).append(
                    User(
                        found.pid,
                        found.start_time,
                        cgroup,
                        mapping.path,
                        mapping.map_files_name,
                    )
                )
        self._users = cgroups
        self._catalogue.observe(users, self._others(scan))
        return scan

    def _others(self, scan: Scan) -> dict[int, str]:
        """Processes that use a GPU without a driver library in sight."""
        others = {}
        for pid, found in scan.processes.items():
            if found.mappings:
                continue
            if found.problem:
                others[pid] = found.problem
            elif found.computes:
                others[pid] = "it holds a compute device open and maps no known driver library"
        for pid, reason in self._listed.items():
            found_now = scan.processes.get(pid)
            if found_now is None or not found_now.mappings:
                others.setdefault(pid, reason)
        return others
