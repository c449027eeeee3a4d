"""Finds driver libraries and keeps probes in them: a thread beside the tick.

Linux's side-band events wake it within milliseconds of a new mapping; a scan of
/proc every few seconds finds what events lost. What to do is the catalogue's
decision; inspecting, attaching and releasing take up to seconds and run in a pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gpugauge.agent.origins import Origins
from gpugauge.agent.tracer import Tracer
from gpugauge.discovery.catalogue import Catalogue
from gpugauge.discovery.decision import Decision, HostLibrary, Inspect, User
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import Found, ProcScanner, Scan
from gpugauge.ebpf.sideband import Sideband
from gpugauge.errors import GpugaugeError
from gpugauge.model.library import FileId, Library
from gpugauge.model.sideband import CommandSet, FileMapped, SidebandBatch, TaskEnded

LOG = logging.getLogger(__name__)

CANARIES = ("cuProfilerStop", "cuCoredumpGetAttributeGlobal", "cuGetErrorString")
"""Functions that are called seldom or never, and that nobody has a reason to probe."""
POOL_THREADS = 8
"""Closing 200 links takes 9.8 s one by one and 1.1 s from 32 threads; 64 links are the limit."""
FULL_SCAN_SECONDS = 30.0
"""Open device nodes are looked at only this often: it reads every descriptor of every process."""
UNKNOWN_CGROUP = 0


def cgroup_number(pid: int) -> int:
    """Return a number that tells the cgroup of a process from others, or UNKNOWN_CGROUP."""
    try:
        return hash(Path(f"/proc/{pid}/cgroup").read_bytes()) or 1
    except OSError:
        return UNKNOWN_CGROUP


class Libraries:
    """The thread that keeps the right libraries attached."""

    def __init__(
        self,
        tracer: Tracer,
        *,
        scan_seconds: float,
        hosts: Callable[[], tuple[HostLibrary, ...]],
        only: frozenset[FileId] | None = None,
    ) -> None:
        """Take what to attach with.

        Args:
            tracer: Attaches and releases.
            scan_seconds: Time between two scans of /proc.
            hosts: Finds the host's driver libraries now.
            only: Attach these files and no others; None: whatever is found.
        """
        self._tracer = tracer
        self._scan_seconds = scan_seconds
        self._hosts = hosts
        self._only = only
        self._names = LibraryNames(tracer.vendor.library_patterns)
        self._scanner = ProcScanner(self._names)
        self._inspector = Inspector(tracer.vendor, CANARIES)
        self._catalogue = Catalogue()
        self.origins = Origins()
        self._lock = threading.Lock()
        self._under_way = 0
        self._pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="attach")
        self._stop = threading.Event()
        self._kick = threading.Event()
        self._sideband: Sideband | None = None
        self._thread = threading.Thread(target=self._run, name="libraries", daemon=True)
        self._unprobed: Mapping[int, str] = {}
        self._file_of: Mapping[int, FileId] = {}
        self._full_scan_at = 0.0
        self.scans = 0
        self.sideband_lost = 0
        self.sideband_error = ""

    def start(self) -> None:
        """Attach to what is here now, then go on in a thread.

        When it returns, the host's driver library is attached if there is one.
        """
        try:
            self._sideband = Sideband(commands=True, tasks=True, wanted=self._names.match)
        except GpugaugeError as error:
            self.sideband_error = error.sentence
            LOG.warning("no events of new mappings, scanning only: %s", error)
        self._rescan()
        deadline = time.monotonic() + 5.0
        while self._busy() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what is attached is the tracer's to close."""
        self._stop.set()
        self._kick.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._sideband is not None:
            self._sideband.close()

    def exited(self, pid: int) -> None:
        """Tell that a traced process ended, so that its library is released at once."""
        with self._lock:
            self._catalogue.exited(pid)
        self._act()

    def unprobed(self) -> dict[str, int]:
        """Return processes that use a GPU without probes, by reason."""
        return dict(Counter(self._unprobed.values()))

    def library_of(self, pid: int) -> Library | None:
        """Return the attached library that a process maps, or the only one there is."""
        attached = self._tracer.libraries()
        if len(attached) == 1:
            return attached[0]
        name = self._file_of.get(pid)
        return next((each for each in attached if each.file_id == name), None)

    @property
    def ready(self) -> bool:
        """True after the first scan."""
        return self.scans > 0

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            left = self._scan_seconds - (time.monotonic() - last)
            if self._sideband is not None:
                if self._sideband.wait(max(0.0, min(left, 0.5))):
                    self._take(self._sideband.read())
            else:
                self._kick.wait(max(0.0, min(left, 0.5)))
            if time.monotonic() - last >= self._scan_seconds:
                last = time.monotonic()
                self._guarded(self._rescan)
            else:
                self._guarded(self._act)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:  # a fault here must not end discovery for good
            LOG.exception("discovery met a fault; it goes on")

    def _take(self, batch: SidebandBatch) -> None:
        """Take in side-band records: mappings of library names, exits, execs."""
        if batch.lost:
            self.sideband_lost += batch.lost
            self._full_scan_at = float("-inf")  # any process may have mapped a library
            self._guarded(self._rescan)
            return
        changed: set[int] = set()
        for record in batch.records:
            if isinstance(record, FileMapped):
                changed.add(record.pid)
            elif isinstance(record, TaskEnded):
                if record.pid == record.tid:
                    self._gone(record.pid)
            elif isinstance(record, CommandSet) and record.executed:
                self._gone(record.pid)
        if changed:
            self._observe(self._scanner.update(changed))

    def _gone(self, pid: int) -> None:
        self.origins.forget(pid)
        with self._lock:
            self._catalogue.exited(pid)

    def _rescan(self) -> None:
        now = time.monotonic()
        full = now - self._full_scan_at >= FULL_SCAN_SECONDS or not self.scans
        if full:
            self._full_scan_at = now
        with self._lock:
            self._catalogue.set_hosts(self._hosts())
        scan = self._scanner.scan() if full else self._scanner.update()
        self._observe(scan, full=full)
        self.scans += 1

    def _observe(self, scan: Scan, *, full: bool = False) -> None:
        users = {
            file_id: [self._user(found, mapping.path, mapping.map_files_name)
                      for found, mapping in those]
            for file_id, those in scan.users().items()
            if self._only is None or file_id in self._only
        }  # fmt: skip
        others = None
        if full:
            others = {
                pid: found.problem or "it holds a GPU device open and maps no driver library"
                for pid, found in scan.processes.items()
                if not found.mappings and (found.computes or found.problem)
            }
        self._file_of = {user.pid: file_id for file_id, those in users.items() for user in those}
        with self._lock:
            self._catalogue.observe(users, others)
        self._act()

    @staticmethod
    def _user(found: Found, path: str, map_files_name: str) -> User:
        return User(found.pid, found.start_time, cgroup_number(found.pid), path, map_files_name)

    def _act(self) -> None:
        with self._lock:
            decision = self._catalogue.decide(time.monotonic_ns())
        self._unprobed = decision.unprobed
        self._submit(decision)

    def _submit(self, decision: Decision) -> None:
        for inspect in decision.inspect:
            self._later(partial(self._inspect, inspect))
        for library in decision.attach:
            self._later(partial(self._attach, library))
        for file_id in decision.release:
            self._later(partial(self._release, file_id))

    def _later(self, step: Callable[[], None]) -> None:
        with self._lock:
            self._under_way += 1
        self._pool.submit(self._one, step)

    def _one(self, step: Callable[[], None]) -> None:
        try:
            self._guarded(step)
        finally:
            with self._lock:
                self._under_way -= 1

    def _inspect(self, wanted: Inspect) -> None:
        now_ns = time.monotonic_ns()
        device = (wanted.file_id.device_major, wanted.file_id.device_minor)
        try:
            found = self._inspector.inspect(
                wanted.path,
                shown_path=wanted.shown_path,
                pid=wanted.pid,
                device=device if wanted.pid else None,
                tenant_supplied=wanted.tenant_supplied,
            )
        except GpugaugeError as error:
            LOG.info("not attached to %s: %s", wanted.shown_path, error.sentence)
            with self._lock:
                self._catalogue.refused(wanted.file_id, error.sentence, now_ns)
            return
        with self._lock:
            self._catalogue.inspected(
                wanted.file_id, found.library, probed=found.probed, now_ns=time.monotonic_ns()
            )
        self._act()

    def _attach(self, library: Library) -> None:
        try:
            self._tracer.attach(library)
        except GpugaugeError as error:
            LOG.warning("not attached to %s: %s", library.shown_path, error)
            with self._lock:
                self._catalogue.refused(library.file_id, error.sentence, time.monotonic_ns())
            return
        with self._lock:
            self._catalogue.attached(library.file_id)
        self._note_origins(library)
        self._act()

    def _note_origins(self, library: Library) -> None:
        """Who maps the library now mapped it before, or while, the probes came."""
        for found, _mapping in self._scanner.update().users().get(library.file_id, ()):
            self.origins.mapped_before(found.pid, found.start_time)

    def _release(self, file_id: FileId) -> None:
        self._tracer.release(file_id)
        with self._lock:
            self._catalogue.released(file_id)
        self._act()

    def _busy(self) -> bool:
        with self._lock:
            return self._under_way > 0
