"""Which processes of this node map a driver library, read from /proc.

A full scan reads the maps of every process. Between full scans an update reads
only processes that are new or were named by a side-band record. Processes may
end at any moment; one that does is not in the result.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpugauge.discovery.maps import CHUNK_BYTES, LibraryNames, read_mappings
from gpugauge.discovery.maps import Mapping as LibraryMapping
from gpugauge.discovery.patience import Patience
from gpugauge.errors import ForeignDataError
from gpugauge.model.library import FileId

DEVICE_NODE_PREFIXES = ("/dev/nvidia",)
COMPUTE_NODES = frozenset(("/dev/nvidia-uvm",))
"""Opened by CUDA and not by NVML: who holds it computes, or is about to."""
THREADS_LIMIT = 64
OPEN_FILES_LIMIT = 4096
"""Open files of one process that are looked at."""

_STAT_LIMIT_BYTES = 4096
_START_TIME_FIELD = 22  # proc_pid_stat(5), in clock ticks since boot
_START_CODE_FIELD, _START_STACK_FIELD = 26, 28


@dataclass(frozen=True, slots=True)
class Found:
    """What one process maps and holds open."""

    pid: int
    start_time: int
    """In clock ticks since boot: tells a reused pid from the one before."""
    mappings: tuple[LibraryMapping, ...] = ()
    device_nodes: tuple[str, ...] = ()
    """GPU device nodes that it holds open; only known after a full scan."""
    problem: str = ""
    """Why its mappings could not be read, in words."""
    image: tuple[bytes, ...] = ()
    """Where its code and stack begin: tells that it began another program."""

    @property
    def computes(self) -> bool:
        """Whether it holds a device node that only compute libraries open."""
        return not COMPUTE_NODES.isdisjoint(self.device_nodes)


@dataclass(frozen=True, slots=True)
class Scan:
    """The processes of interest at one moment, by pid."""

    processes: Mapping[int, Found]
    seen: int
    """Processes there were, of interest or not."""

    def users(self) -> dict[FileId, list[tuple[Found, LibraryMapping]]]:
        """The libraries, each with the processes that map it, once a process."""
        users: dict[FileId, list[tuple[Found, LibraryMapping]]] = {}
        for found in self.processes.values():
            by_file = {mapping.file_id: mapping for mapping in reversed(found.mappings)}
            for file_id, mapping in by_file.items():
                users.setdefault(file_id, []).append((found, mapping))
        return users


class ProcScanner:
    """Reads /proc and remembers what it saw.

    Args:
        names: The driver libraries to look for.
        proc: The mount of the proc file system, of the host's pid namespace.
        device_node_prefixes: Where the vendor's device nodes are.
        patience: With processes that do not answer.
    """

    def __init__(
        self,
        names: LibraryNames,
        proc: str = "/proc",
        device_node_prefixes: tuple[str, ...] = DEVICE_NODE_PREFIXES,
        patience: Patience | None = None,
    ) -> None:
        self._names = names
        self._proc = proc
        self._device_node_prefixes = device_node_prefixes
        self._patience = Patience() if patience is None else patience
        self._known: dict[int, Found | None] = {}
        """Every pid seen; None for those of no interest."""

    def scan(self) -> Scan:
        """Read every process.

        Raises:
            UnavailableError: Too many processes do not answer.
        """
        self._known = self._patience.run(
            lambda: {pid: self._read(pid, with_devices=True) for pid in self._pids()}
        )
        return self._result()

    def update(self, changed: Collection[int] = ()) -> Scan:
        """Read only processes that are new, changed, or began another program.

        Args:
            changed: Pids named by side-band records: a new mapping, exec or exit.

        Raises:
            UnavailableError: Too many processes do not answer.
        """
        self._known = self._patience.run(lambda: self._updated(changed))
        return self._result()

    def look(self, pids: Collection[int]) -> Scan:
        """Read these processes and no others: records named them, and told of all that changed.

        Raises:
            UnavailableError: Too many processes do not answer.
        """
        self._known = self._patience.run(lambda: self._looked_at(pids))
        return self._result()

    def _looked_at(self, pids: Collection[int]) -> dict[int, Found | None]:
        fresh = dict(self._known)
        for pid in pids:
            before = fresh.pop(pid, None)
            found = self._read(pid, with_devices=False, before=before)
            if found is not None:  # else it is forgotten: another may get its pid
                fresh[pid] = found
        return fresh

    def _updated(self, changed: Collection[int]) -> dict[int, Found | None]:
        known = self._known
        fresh: dict[int, Found | None] = {}
        for pid in self._pids():
            before = known.get(pid)
            if pid not in known or pid in changed or (before and self._other_program(before)):
                fresh[pid] = self._read(pid, with_devices=False, before=before)
            else:
                fresh[pid] = before
        return fresh

    def _result(self) -> Scan:
        processes = {pid: found for pid, found in self._known.items() if found is not None}
        return Scan(processes, len(self._known))

    def _pids(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._proc) if name.isdecimal()]  # noqa: PTH208
        except OSError:
            return []

    def _other_program(self, before: Found) -> bool:
        """Whether the pid was reused, or its process began another program."""
        now = parse_stat(_stat(before.pid, self._proc))
        return now != (before.start_time, before.image)

    def _read(self, pid: int, *, with_devices: bool, before: Found | None = None) -> Found | None:
        mappings: tuple[LibraryMapping, ...] = ()
        problem, worth_telling = "", False
        # Before the maps: another program begun in between then shows at the next look.
        started, image = parse_stat(_stat(pid, self._proc))
        if started < 0:
            return None
        if pid in self._patience.stuck():
            return Found(pid, started, (), (), "its maps do not answer")
        self._patience.at(pid)
        try:
            mappings = self._mappings(f"{self._proc}/{pid}/maps", pid)
        except ForeignDataError as error:
            problem, worth_telling = error.sentence, True
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError as error:
            # Of no interest unless it holds a device: without the privilege it is most of them.
            problem = f"/proc/PID/maps could not be read ({error.strerror})."
        nodes: tuple[str, ...] = ()
        if with_devices:
            nodes = open_device_nodes(pid, self._device_node_prefixes, self._proc)
        elif before is not None and before.start_time == started:
            nodes = before.device_nodes
        if not (mappings or nodes or worth_telling):
            return None
        return Found(pid, started, mappings, nodes, problem, image)

    def _mappings(self, path: str, pid: int = 0) -> tuple[LibraryMapping, ...]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, CHUNK_BYTES)
            if not first:  # a Linux thread, or a process whose first thread has ended
                return self._mappings_of_threads(pid) if pid else ()
            chunks = iter((first,))
            return read_mappings(
                lambda size: next(chunks, None) or os.read(descriptor, size), self._names
            )
        finally:
            os.close(descriptor)

    def _mappings_of_threads(self, pid: int) -> tuple[LibraryMapping, ...]:
        """The mappings of a process whose first thread has ended and whose others go on.

        Its own maps file is empty then; those of its threads are not.
        """
        folder = f"{self._proc}/{pid}/task"
        try:
            for thread in os.listdir(folder)[:THREADS_LIMIT]:  # noqa: PTH208
                if thread != str(pid):
                    return self._mappings(f"{folder}/{thread}/maps")
        except OSError:
            pass
        return ()


def start_time(pid: int, proc: str = "/proc") -> int:
    """When a process started, in clock ticks since boot; -1 where it is gone."""
    return parse_stat(_stat(pid, proc))[0]


def _stat(pid: int, proc: str) -> bytes:
    try:
        descriptor = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _STAT_LIMIT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def parse_stat(stat: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Parse the start time and the image from /proc/PID/stat.

    The command's name, field 2, may hold spaces and parentheses: fields are
    counted from the last closing one.

    Returns:
        Start time, -1 for bytes of another form; and where code and stack begin,
        which another program of the same process changes.
    """
    fields = stat[stat.rfind(b")") + 1 :].split()
    at = _START_TIME_FIELD - 3
    text = fields[at] if len(fields) > at else b""
    started = int(text) if text.isdigit() and len(text) <= 20 else -1
    return started, tuple(fields[_START_CODE_FIELD - 3 : _START_STACK_FIELD - 2])


def open_device_nodes(pid: int, prefixes: Iterable[str], proc: str = "/proc") -> tuple[str, ...]:
    """The device nodes below the prefixes that a process holds open, sorted.

    Only links are read: no file of the process is opened or asked anything.
    """
    folder = f"{proc}/{pid}/fd"
    wanted = tuple(prefixes)
    nodes: set[str] = set()
    try:
        for name in os.listdir(folder)[:OPEN_FILES_LIMIT]:  # noqa: PTH208
            try:
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            except OSError:
                continue
            if target.startswith(wanted):
                nodes.add(target.removesuffix(" (deleted)"))
    except OSError:
        pass
    return tuple(sorted(nodes))
