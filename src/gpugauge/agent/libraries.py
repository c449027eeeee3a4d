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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from gpugauge.agent.checkpoints import OFF_SECONDS, concerned
from gpugauge.agent.events import Checkpoint
from gpugauge.agent.interruption import Interruption
from gpugauge.agent.origins import Origins
from gpugauge.agent.tracer import Tracer
from gpugauge.agent.work import Work, guarded
from gpugauge.discovery import canary
from gpugauge.discovery.catalogue import Catalogue
from gpugauge.discovery.decision import HostLibrary, Inspect
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.pauses import DOUBLED
from gpugauge.discovery.scan import ProcScanner
from gpugauge.discovery.watch import Watch, cgroup_number
from gpugauge.ebpf.sideband import Sideband
from gpugauge.errors import GpugaugeError
from gpugauge.model.library import FileId, Library
from gpugauge.units import NS_PER_SECOND

LOG = logging.getLogger(__name__)

POOL_THREADS = 16
"""Closing 200 links takes 9.8 s one by one and 1.1 s from 32 threads; 64 is the limit here."""
FIRST_ATTACH_SECONDS = 5.0
HOSTS_SECONDS = 30.0
"""The host's driver is looked for this often, and before a file is taken for a tenant's: 10 ms."""
DOUBLED_NS = 3600 * NS_PER_SECOND
STOP_SECONDS = 2.0


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
        self._names = LibraryNames(tracer.vendor.library_patterns)
        self._scanner = ProcScanner(self._names)
        self._inspector = Inspector(tracer.vendor, canary.PREFERRED)
        self._catalogue = Catalogue()
        self._watch = Watch(self._catalogue, self._scanner, self._names, cgroup_number, only)
        self.origins = Origins(tracer.note_seen_late, tracer.drop_seen_late)
        self._lock = threading.Lock()
        """Of the catalogue and what feeds it. Held while /proc is read: never taken by the tick."""
        self._work = Work(POOL_THREADS, "attach")
        self._stop = threading.Event()
        self._sideband: Sideband | None = None
        self._thread = threading.Thread(target=self._run, name="libraries", daemon=True)
        self._interruption = Interruption(tracer.loaded)
        self._unprobed: Mapping[int, str] = {}
        self._file_of: Mapping[int, FileId] = {}
        self._hosts_at = float("-inf")
        self.scans = 0
        self.sideband_lost = 0
        self.sideband_error = ""

    def start(self, *, on: bool = True) -> None:
        """Attach to what is here now, then go on in a thread.

        When it returns, the host's driver library is attached if there is one, and `on`.
        """
        self._catalogue.pauses.turn(on)
        try:
            self._sideband = Sideband(commands=True, tasks=True, wanted=self._names.match)
        except GpugaugeError as error:
            self.sideband_error = error.sentence
            LOG.warning("no events of new mappings, scanning only: %s", error)
        self._refresh()
        deadline = time.monotonic() + FIRST_ATTACH_SECONDS
        while self._work.busy and time.monotonic() < deadline:
            time.sleep(0.002)
        self._work.later(self._inspector.prepare)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what is attached is the tracer's to close."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._work.close()
        self._inspector.close()
        self._interruption.close()
        if self._sideband is not None:
            self._sideband.close()

    def exited(self, pid: int) -> None:
        """Tell that a traced process ended, so that its library is released at once."""
        self.origins.forget(pid)
        self._work.later(partial(self._change, self._catalogue.exited, pid))

    def executed(self, pid: int) -> None:
        """Tell that a traced process began another program, which may map the library too."""
        self.origins.forget(pid)
        self._work.later(partial(self._change, self._watch.look, {pid}))

    def turn(self, *, on: bool) -> None:
        """Take every probe off, or put them back."""
        self._work.later(partial(self._change, self._catalogue.pauses.turn, on))

    def checkpoint_begins(self, checkpoint: Checkpoint) -> None:
        """Take the probes off a process that is about to be checkpointed, and its neighbours."""
        LOG.warning("a process is checkpointed: no probes in its library for a while")
        until_ns = time.monotonic_ns() + int(OFF_SECONDS * NS_PER_SECOND)
        self._work.later(partial(self._pause, checkpoint, until_ns))

    def checkpoint_ends(self, checkpoint: Checkpoint) -> None:
        """Put them back."""
        self._work.later(partial(self._pause, checkpoint, 0))

    def doubled(self, links: tuple[int, int]) -> None:
        """Two links hit one call: let go of the younger one, as the older one counts it."""
        self._work.later(partial(self._doubled, links))

    def interrupted(self) -> set[int]:
        """Return pids whose calls were not seen for a while, once."""
        return self._interruption.take()

    def list_devices(self, processes: Mapping[int, str]) -> None:
        """Say which processes are known to use a GPU, by pid with the reason."""
        self._watch.list_devices(processes)

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

    @property
    def in_use(self) -> bool:
        """Whether any process uses a GPU, as far as is known, or did a moment ago."""
        return not self._catalogue.idle

    def _run(self) -> None:
        due = time.monotonic() + self._scan_seconds
        while not self._stop.is_set():
            wait = max(0.0, min(due - time.monotonic(), 0.5))
            if self._sideband is None:
                self._stop.wait(wait)
            elif self._sideband.wait(wait):
                self._watch.gather()
                guarded(self._take)
            if time.monotonic() >= due:
                due = time.monotonic() + self._scan_seconds
                guarded(self._refresh)

    def _take(self) -> None:
        """Take in side-band records: mappings, new programs, starts and ends."""
        assert self._sideband is not None  # noqa: S101 (it woke us)
        batch = self._sideband.read()
        self.sideband_lost += batch.lost
        if self._watch.concerns(batch):
            with self._deciding():
                self._watch.handle(batch, time.monotonic_ns())

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._hosts_at >= HOSTS_SECONDS:
            self._look_for_hosts()
        with self._deciding():
            self._watch.refresh(time.monotonic_ns())
        self.scans += 1

    def _look_for_hosts(self) -> None:
        self._hosts_at = time.monotonic()
        self._change(self._catalogue.set_hosts, self._hosts())

    def _change(self, step: Callable[..., object], argument: object) -> None:
        with self._deciding():
            step(argument)

    def _pause(self, checkpoint: Checkpoint, until_ns: int) -> None:
        called = self._tracer.library_of_link(checkpoint.link)
        files = concerned(checkpoint, self._file_of, called.file_id if called else None)
        with self._deciding():
            if until_ns:
                self._catalogue.pauses.begin(files, until_ns)
            else:
                self._catalogue.pauses.end(files)

    def _doubled(self, links: tuple[int, int]) -> None:
        library = self._tracer.younger(links)
        if library is not None:
            LOG.warning("%s is another name of a traced library", library.shown_path)
            with self._deciding():
                until_ns = time.monotonic_ns() + DOUBLED_NS
                self._catalogue.pauses.begin([library.file_id], until_ns, DOUBLED)

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        """Change the catalogue, then carry out what it decides."""
        with self._lock:
            yield
            decision = self._catalogue.decide(time.monotonic_ns())
            self._file_of = self._catalogue.files()
        self._unprobed = decision.unprobed
        for library in decision.attach:
            self._work.later(partial(self._attach, library))
        for inspect in decision.inspect:
            self._work.later(partial(self._inspect, inspect))
        for file_id in decision.release:
            self._work.later(partial(self._release, file_id))

    def _inspect(self, wanted: Inspect) -> None:
        try:
            if wanted.pid:  # is it a driver that the host got just now?
                self._look_for_hosts()
            self._ask(wanted)
        finally:
            self._inspector.prepare()

    def _ask(self, wanted: Inspect) -> None:
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
            with self._deciding():
                self._catalogue.refused(wanted.file_id, error.sentence, time.monotonic_ns())
            return
        with self._deciding():
            self._catalogue.inspected(
                wanted.file_id, found.library, probed=found.probed, now_ns=time.monotonic_ns()
            )

    def _attach(self, library: Library) -> None:
        # Before the first hit: the programs must not trust what they see of these processes.
        with self._lock:
            self._note_users(library.file_id)
        try:
            self._tracer.attach(library)
        except GpugaugeError as error:
            LOG.warning("not attached to %s: %s", library.shown_path, error)
            with self._deciding():
                self._catalogue.refused(library.file_id, error.sentence, time.monotonic_ns())
            return
        with self._deciding():
            self._catalogue.attached(library.file_id)
            # Who maps it now may have mapped it before the probes came, or while they did.
            self._note_users(library.file_id)

    def _note_users(self, file_id: FileId) -> None:
        for found, _mapping in self._scanner.update().users().get(file_id, ()):
            self.origins.mapped_before(found.pid, found.start_time)

    def _release(self, file_id: FileId) -> None:
        self._tracer.release(file_id)
        users = {pid for pid, name in self._file_of.items() if name == file_id}
        self._interruption.interrupt(users)  # they go on, and nobody sees it
        with self._deciding():
            self._catalogue.released(file_id)
