"""What Linux tells about processes as it happens: files mapped, commands, starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.model.library import FileId

PROTECTION_EXECUTE = 4


@dataclass(frozen=True, slots=True)
class FileMapped:
    """A process mapped a file to execute it."""

    time_ns: int
    """CLOCK_MONOTONIC, as in all of these."""
    pid: int
    tid: int
    file_id: FileId
    inode_generation: int
    path: str
    """As the process sees it. From the process: not to be trusted, may hold any character."""
    address: int
    length_bytes: int
    file_offset: int
    protection: int
    """PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4."""


@dataclass(frozen=True, slots=True)
class CommandSet:
    """A thread got its name; with `executed` its process began another program."""

    time_ns: int
    pid: int
    tid: int
    command: str
    executed: bool


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A process (pid = tid) or a thread began."""

    time_ns: int
    pid: int
    tid: int
    parent_pid: int


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A process or a thread ended."""

    time_ns: int
    pid: int
    tid: int
    parent_pid: int


SidebandRecord = FileMapped | CommandSet | TaskStarted | TaskEnded


@dataclass(frozen=True, slots=True)
class SidebandBatch:
    """What was read at once, by time."""

    records: tuple[SidebandRecord, ...]
    lost: int
    """Records that Linux could not keep since the last read: a full scan is due."""
    more: bool = False
    """The limit was reached: there is more to read now."""
