"""Where things are on the node, and reading them within bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpugauge.attribution.cgroup_tree import host_cgroup_root
from gpugauge.discovery.host import resolve
from gpugauge.errors import UnavailableError

NAMES_LIMIT = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The host's trees as this process sees them; tests give their own."""

    root: str = "/"
    """The host's root; in a container with hostPID /proc/1/root."""
    proc: str = "/proc"
    sys: str = "/sys"
    cgroup: str = "/sys/fs/cgroup"
    """The host's cgroup trees: a container has its own at that place."""
    kubelet: str = "/var/lib/kubelet"
    """Where the kubelet's folder is for this process."""
    boot_unix_ns: int | None = None
    """When the Linux log's clock was 0; None: from the clocks of this machine."""
    statvfs: Callable[[str], os.statvfs_result] = os.statvfs

    def host(self, path: str) -> str:
        """Return a path of the host, its links followed inside the host's root; "" for none."""
        return resolve(self.root, path) or ""

    def names(self, path: str) -> tuple[str, ...] | None:
        """Return the names in a folder of the host, None where it is not there."""
        real = self.host(path)
        return folder(real) if real else None


def host_places(kubelet: str) -> Places:
    """Return the places of this node: the agent may run in a container of its own."""
    try:
        same = Path("/proc/1/root").stat() == Path("/").stat()
    except OSError:
        same = True
    root = "/" if same else "/proc/1/root"
    return Places(root=root, cgroup=host_cgroup_root("/proc"), kubelet=kubelet)


def folder(path: str) -> tuple[str, ...] | None:
    """Return the names in a folder, sorted; None where it cannot be read."""
    try:
        return tuple(sorted(os.listdir(path))[:NAMES_LIMIT])  # noqa: PTH208
    except OSError:
        return None


def read(path: str, limit_bytes: int) -> bytes:
    """Return the beginning of a regular or proc file; never waits for a writer.

    Raises:
        UnavailableError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(limit_bytes)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnavailableError(f"{path} cannot be read ({reason})") from None


def text(path: str, limit_bytes: int = 1 << 20) -> str:
    """Return the beginning of a file as text, "" where it cannot be read."""
    try:
        return read(path, limit_bytes).decode("utf-8", "replace")
    except UnavailableError:
        return ""
