"""A copy of a driver library on this node, and where probes go in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SiteKind(StrEnum):
    """How Linux runs the instruction under a probe."""

    PUSH = "push"
    JUMP = "je"
    NOP = "nop"
    NONE = "none"
    """No legal site: the function is not attached, and reported."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where in the file a function is probed."""

    symbol: str
    file_offset: int
    """Offset in the file, not the virtual address."""
    kind: SiteKind
    reason: str = ""
    """Why there is no legal site."""


@dataclass(frozen=True, slots=True)
class FileId:
    """A file as Linux names it in /proc/PID/maps. Two overlay mounts give two for one inode."""

    device_major: int
    device_minor: int
    inode: int


@dataclass(frozen=True, slots=True)
class Library:
    """A driver library found on this node.

    `path` is the path to open it by from the agent (a host path, or
    /proc/PID/map_files/...), `shown_path` is how its users see it.
    """

    file_id: FileId
    path: str
    shown_path: str
    vendor: str
    version: str
    """`580.159.04` from the file's name or soname, or "" where unknown."""
    sites: tuple[Site, ...]
    exported: int
    """How many functions the library exports."""
    unknown_symbols: tuple[str, ...]
    """Exported names of a launch, synchronize, copy or allocation family that have no row."""
    tenant_supplied: bool
    """Not the host's driver: a copy inside a container image."""
    canary: Site | None = None
    """A function that nobody traces, and that every link of ours includes: see discovery.canary."""
    build_id: str = ""
    """GNU build id in hex: equal files under two names have one."""
    size_bytes: int = 0
    simulated: bool = False
    """It is no driver: the simulated one, for tests and the demo."""
