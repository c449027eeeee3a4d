"""What goes into the catalogue of libraries, and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from gpugauge.model.library import FileId, Library


@dataclass(frozen=True, slots=True)
class User:
    """A process that maps a library."""

    pid: int
    start_time: int
    """In clock ticks since boot."""
    cgroup: int
    """Of its container, as far as known: the limits of tenants are counted by it."""
    path: str
    """Of the library, as this process sees it."""
    map_files_name: str
    """Of the mapping, in /proc/PID/map_files."""

    @property
    def map_files_path(self) -> str:
        """Leads to the file itself, deleted or in another mount namespace."""
        return f"/proc/{self.pid}/map_files/{self.map_files_name}"


@dataclass(frozen=True, slots=True)
class HostLibrary:
    """The host's driver library."""

    file_id: FileId
    path: str
    """To open it by from the agent."""
    keep: bool = False
    """Stay attached without any process: only for a file whose mount nobody will want back."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """A file that should be inspected now."""

    file_id: FileId
    path: str
    shown_path: str
    pid: int
    """Whose mounts it lies in; 0 is the agent's own."""
    tenant_supplied: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """What should be done now. Each item is decided once, until its result is told."""

    inspect: tuple[Inspect, ...] = ()
    attach: tuple[Library, ...] = ()
    release: tuple[FileId, ...] = ()
    unprobed: Mapping[int, str] = field(default_factory=dict)
    """Processes that use a GPU without probes, by pid, with the reason."""


class Stage(Enum):
    """How far a library has come."""

    NEW = auto()
    INSPECTING = auto()
    READY = auto()
    """Inspected, and may be attached."""
    ATTACHING = auto()
    ATTACHED = auto()
    RELEASING = auto()
    ALIAS = auto()
    """Another name of an attached file: it only holds a reference."""


LINKED = (Stage.ATTACHING, Stage.ATTACHED, Stage.RELEASING)
"""Linux may hold breakpoints of ours in the file."""


@dataclass(slots=True)
class Entry:
    """One file in the catalogue."""

    file_id: FileId
    order: int
    """Of appearance."""
    users: dict[int, User] = field(default_factory=dict)
    host: HostLibrary | None = None
    stage: Stage = Stage.NEW
    library: Library | None = None
    alias_of: FileId | None = None
    via: int | None = None
    """The container through whose mount it was attached; None for a path of the host."""
    reason: str = ""
    """Why it was refused last."""
    changed_at: int = 0
    """Number of the step at which it came to its stage."""

    @property
    def oldest_user(self) -> User:
        """The process that is likeliest to stay.

        Raises:
            ValueError: Nobody uses it.
        """
        return min(self.users.values(), key=lambda user: (user.start_time, user.pid))

    @property
    def fingerprint(self) -> tuple[object, ...] | None:
        """Equal for equal files; None before inspection."""
        if self.library is None:
            return None
        library = self.library
        return library.build_id, library.size_bytes, library.canary, library.sites
