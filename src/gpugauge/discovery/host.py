"""Where the host's driver library is, before any process maps it.

A driver root is a folder that looks like the root of a file system (the host
itself, or the container that carries the driver) or one with `lib64` in it.
Paths and symbolic links are followed inside the host's root only: the agent's
own container has other files at the same places.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpugauge.discovery.ldcache import CACHE_LIMIT_BYTES, library_paths
from gpugauge.discovery.maps import parse_line
from gpugauge.model.library import FileId
from gpugauge.vendors import Vendor

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",  # Debian, Ubuntu
    "usr/lib/x86_64-linux-gnu/nvidia/current",  # Debian's own packages
    "usr/lib64",  # RHEL, SUSE, Amazon Linux
    "usr/lib64/nvidia",
    "usr/lib",  # Arch
    "lib/x86_64-linux-gnu",
    "lib64",
    "usr/local/nvidia/lib64",  # GKE, device plugins
    "usr/local/nvidia/lib",
    "opt/nvidia/lib64",
    "usr/lib/wsl/lib",  # WSL
    "run/opengl-driver/lib",  # NixOS
    "lib",
)
LINKS_LIMIT = 40
"""Symbolic links followed for one path, as Linux does."""
FOLDER_LIMIT = 16384
"""Names of one folder that are looked at."""
DRIVER_VERSION_PATH = "/proc/driver/nvidia/version"
_VERSION_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HostDriver:
    """A driver library of the host."""

    path: str
    """To open it by from the agent, symbolic links resolved."""
    version: str
    """From its file name, or "" where that does not tell."""
    own_mount: bool
    """It lies on another file system than the host's root, which may want to be unmounted."""


def find_host_drivers(
    vendor: Vendor, driver_roots: Iterable[str] = ("/",), host_root: str = "/"
) -> tuple[HostDriver, ...]:
    """Look for the driver libraries of the host.

    Args:
        vendor: Whose library.
        driver_roots: As the host names them.
        host_root: The host's root as the agent sees it.

    Returns:
        Each file once, in the order of the roots.
    """
    found: dict[tuple[int, int], HostDriver] = {}
    root_device = _device(host_root)
    for root in driver_roots:
        inside = resolve(host_root, root)
        if inside is None:
            continue
        for path in _candidates(inside, vendor):
            real = resolve(inside, path)
            if real is None or not vendor.is_library(Path(real).name):
                continue
            try:
                status = os.stat(real)  # noqa: PTH116
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                driver = HostDriver(
                    real, vendor.library_version(Path(real).name), status.st_dev != root_device
                )
                found.setdefault((status.st_dev, status.st_ino), driver)
    return tuple(found.values())


def mapped_file_id(path: str) -> FileId | None:
    """Device and inode of a host's file as /proc/PID/maps shows them; None where it cannot be read.

    stat(2) gives others on btrfs and overlay. So one page is mapped for a moment,
    and looked up. Not for foreign files: opening one may hang.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        shown = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
        with mmap.mmap(descriptor, 1, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ):
            lines = Path("/proc/self/maps").read_bytes().split(b"\n")
        # A file of that name that was replaced meanwhile is marked as deleted.
        found = (parse_line(line, executable=False) for line in lines)
        ids = [each.file_id for each in found if each and each.path == shown and not each.deleted]
        return ids[-1] if ids else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev  # noqa: PTH116
    except OSError:
        return -1


def _candidates(root: str, vendor: Vendor) -> Iterator[str]:
    """Paths below a root that may be the library: first what its loader would take."""
    cache = resolve(root, "etc/ld.so.cache")
    if cache is not None:
        yield from library_paths(_read(cache, CACHE_LIMIT_BYTES), vendor.is_library)
    for folder in LIBRARY_FOLDERS:
        real = resolve(root, folder)
        if real is None:
            continue
        try:
            names = os.listdir(real)[:FOLDER_LIMIT]  # noqa: PTH208
        except OSError:
            continue
        for name in sorted(names):
            if vendor.is_library(name):
                yield f"{folder}/{name}"


def resolve(root: str, path: str) -> str | None:
    """Follow a path as a process whose root is `root` would.

    Args:
        root: A folder; a link such as /proc/1/root is one.
        path: Absolute or relative to the root; `..` does not leave it.

    Returns:
        The path from the agent's own root, without symbolic links below `root`;
        None where a part is missing or links go round.
    """
    base = "" if root == "/" else root.rstrip("/")
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            del done[-1:]
            continue
        here = "/".join((base, *done, part))
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
            target = os.readlink(here) if is_link else ""  # noqa: PTH115
        except OSError:
            return None
        if not is_link:
            done.append(part)
            continue
        links += 1
        if links > LINKS_LIMIT:
            return None
        if target.startswith("/"):
            done = []
        todo += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    return "/".join((base, *done)) or "/"


def _read(path: str, limit: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def loaded_driver_version(path: str = DRIVER_VERSION_PATH) -> str:
    """The version of the driver that Linux has loaded, or "" where none is."""
    return parse_driver_version(_read(path, _VERSION_LIMIT_BYTES))


def parse_driver_version(text: bytes) -> str:
    """Parse /proc/driver/nvidia/version: the first word of its NVRM line that is a version."""
    for line in text.split(b"\n"):
        if line.startswith(b"NVRM version:"):
            for word in line.split():
                parts = word.split(b".")
                if 2 <= len(parts) <= 4 and all(part.isdigit() for part in parts):
                    return word[:32].decode()
    return ""
