"""The BPF programs, loaded, and the libraries they are attached to."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from gpugauge.ebpf import features, objects_file
from gpugauge.ebpf.attachment import Attachment, Mode, Probe, ProgramSet, attach
from gpugauge.ebpf.links import Link, attach_raw_tracepoint
from gpugauge.ebpf.linux_layout import thread_count_offsets
from gpugauge.ebpf.loader import Loaded, load
from gpugauge.ebpf.syscalls import BpfCallError
from gpugauge.errors import GpugaugeError, UnsupportedError
from gpugauge.model import abi
from gpugauge.model.library import FileId, Library, SiteKind
from gpugauge.settings import Settings
from gpugauge.vendors import VENDORS, Vendor
from gpugauge.vendors.cookie import pack

LOG = logging.getLogger(__name__)

TRACEPOINTS = {
    "thread_exits": "sched_process_exit",
    "process_execs": "sched_process_exec",
}
CLOSING_THREADS = 16
"""Libraries that are let go at a time; closing waits, it does not work."""
NO_ROW = 0
"""Cookie of the canary: the programs do nothing for it."""
PROGRAMS = {
    Mode.SESSION: ("call_session",),
    Mode.MULTI: ("enter_multi", "leave_multi"),
    Mode.PERF: ("enter_perf", "leave_perf"),
}


class Tracer:
    """Programs, maps and attachments. Attaching is safe from several threads."""

    def __init__(
        self,
        settings: Settings,
        vendor: Vendor = VENDORS[0],
        map_entries: Mapping[str, int] | None = None,
    ) -> None:
        """Load the programs and attach those that follow threads and processes.

        Args:
            settings: Which mode.
            vendor: Whose functions.
            map_entries: Sizes of maps by name, in place of those of bpf/abi.h.

        Raises:
            UnsupportedError: This Linux or these privileges cannot do it.
        """
        self.vendor = vendor
        forced = settings.attach.mode.value
        self.mode = features.choose_mode(None if forced == "auto" else forced)
        self.loaded: Loaded = load(
            objects_file.read("gpu"),
            programs=(*PROGRAMS[self.mode], *TRACEPOINTS),
            rodata=thread_count_offsets(),
            map_entries=map_entries,
        )
        self._lock = threading.Lock()
        self._rows = {f.symbol: (row, f) for row, f in vendor.numbered()}
        self._attachments: dict[FileId, tuple[int, Library, Attachment]] = {}
        self._free_links = list(range(abi.LIMIT_LINKS - 1, -1, -1))
        self._tracepoints: list[Link] = []
        self.failed = 0
        self.simulated = False
        """A simulated driver was attached in this run."""
        self.memory_bytes = self.loaded.memory_bytes
        """Of all maps; they are allocated in full when they are made."""
        self.returns = True
        """False attaches entries alone: return probes were not proved safe here."""
        try:
            for slot in range(self.loaded.maps["free_slots"].max_entries):
                self.loaded.maps["free_slots"].push(slot.to_bytes(4, "little"))
            # Before any probe: a thread row must not outlive its thread.
            for program, tracepoint in TRACEPOINTS.items():
                self._tracepoints.append(
                    attach_raw_tracepoint(self.loaded.programs[program], tracepoint)
                )
        except BaseException:
            self.close()
            raise

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the function table, in the order of its rows."""
        return tuple(function.symbol for function in self.vendor.functions)

    def attach(self, library: Library) -> None:
        """Put probes into a library.

        Raises:
            UnavailableError: The file is gone, or 64 libraries are attached.
            UnsupportedError: Linux refuses.
        """
        with self._lock:
            if library.file_id in self._attachments:
                return
            if not self._free_links:
                raise UnsupportedError(f"{abi.LIMIT_LINKS} libraries are attached already.")
            link = self._free_links.pop()
        try:
            attachment = attach(
                self.mode,
                library.path,
                self._probes(library, link),
                self._set(),
                returns=self.returns,
            )
        except GpugaugeError:
            with self._lock:
                self._free_links.append(link)
                self.failed += 1
            raise
        with self._lock:
            self._attachments[library.file_id] = (link, library, attachment)
            self.simulated |= library.simulated
        LOG.info("attached to %s (%d sites, %s mode)", library.shown_path, attachment.sites,
                 self.mode.value)  # fmt: skip

    def release(self, file_id: FileId) -> None:
        """Take all probes out of a library; takes 30-90 ms a link."""
        with self._lock:
            found = self._attachments.pop(file_id, None)
        if found is None:
            return
        link, library, attachment = found
        attachment.close()
        with self._lock:
            self._free_links.append(link)
        LOG.info("released %s", library.shown_path)

    def libraries(self) -> tuple[Library, ...]:
        """Return the attached libraries."""
        with self._lock:
            return tuple(library for _, library, _ in self._attachments.values())

    def note_seen_late(self, pid: int) -> None:
        """Tell the programs that a process mapped its library before its probes."""
        with contextlib.suppress(BpfCallError):  # full: the agent still says it is incomplete
            self.loaded.maps["seen_late"].update(pid.to_bytes(4, "little"), bytes(4))

    def drop_seen_late(self, pid: int) -> None:
        """Take it back: the pid may come again."""
        self.loaded.maps["seen_late"].delete(pid.to_bytes(4, "little"))

    def library_of_link(self, link: int) -> Library | None:
        """Return the library that has a link number now."""
        with self._lock:
            return next((each for n, each, _ in self._attachments.values() if n == link), None)

    def younger(self, links: tuple[int, int]) -> Library | None:
        """Return the library of two link numbers that was attached last; None: one is gone."""
        with self._lock:
            found = [each for n, each, _ in self._attachments.values() if n in links]
        return found[-1] if len(found) > 1 else None

    @property
    def links_in_use(self) -> int:
        """How many libraries hold links, those being attached or released included."""
        with self._lock:
            return abi.LIMIT_LINKS - len(self._free_links)

    def probes(self) -> dict[str, int]:
        """Return numbers of probes by state."""
        with self._lock:
            attached = [(library, a) for _, library, a in self._attachments.values()]
        kinds = Counter(site.kind for library, _ in attached for site in library.sites)
        return {
            "attached": sum(a.sites for _, a in attached),
            "refused": kinds[SiteKind.NONE],
            "skipped": sum(len(a.skipped) for _, a in attached),
            "failed": self.failed,
        }

    def close(self) -> None:
        """Take everything off: at once, for this is the end of the agent.

        In perf mode it is done some seconds after this process has ended.
        """
        with self._lock:
            attachments = [each for _, _, each in self._attachments.values()]
            self._attachments.clear()
        if self.mode is Mode.PERF:
            for each in attachments:
                each.leave()
        elif attachments:
            with ThreadPoolExecutor(min(CLOSING_THREADS, len(attachments))) as pool:
                for closing in [pool.submit(each.close) for each in attachments]:
                    closing.result()
        for link in self._tracepoints:
            link.close()
        self._tracepoints.clear()
        self.loaded.close()

    def _set(self) -> ProgramSet:
        programs = self.loaded.programs
        if self.mode is Mode.SESSION:
            # Where an entry wants no return, the program says so at each hit.
            return ProgramSet(entry=programs["call_session"], both=programs["call_session"])
        entry, leave = PROGRAMS[self.mode]
        return ProgramSet(entry=programs[entry], exit=programs[leave])

    def _probes(self, library: Library, link: int) -> list[Probe]:
        probes = []
        for site in library.sites:
            if site.kind is SiteKind.NONE or site.symbol not in self._rows:
                continue
            row, function = self._rows[site.symbol]
            if not self.returns:
                function = replace(function, returns=False)
            probes.append(
                Probe(
                    offset=site.file_offset,
                    cookie=pack(function, row, link),
                    wants_return=function.returns,
                    hot=function.hot,
                    core=function.core,
                )
            )
        if library.canary is not None:
            probes.append(
                Probe(offset=library.canary.file_offset, cookie=NO_ROW, wants_return=False)
            )
        return probes
