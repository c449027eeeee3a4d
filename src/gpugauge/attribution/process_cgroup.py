"""What /proc says of one process: its cgroups, guarded against reuse of the pid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpugauge.attribution.cgroup import (
    FILE_LIMIT_BYTES,
    CgroupIdentity,
    controller_paths,
    parse_file,
)

STAT_LIMIT_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class ProcessCgroup:
    """The cgroups of a process at one moment."""

    identity: CgroupIdentity
    paths: tuple[tuple[str, str], ...]
    """(v1 controller, path); the v2 path is under ""."""


def start_time_ticks(proc: str, pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (field 22 of stat), or None."""
    fields = _stat(proc, pid)
    return int(fields[19]) if len(fields) > 19 and fields[19].isdigit() else None


def _stat(proc: str, pid: int) -> list[bytes]:
    try:
        with Path(proc, str(pid), "stat").open("rb") as file:
            data = file.read(STAT_LIMIT_BYTES)
    except OSError:
        return []
    # The command's name may hold spaces and brackets: the fields begin after the last one.
    return data.rpartition(b")")[2].split()


def process_cgroup(
    pid: int, start_time: int | None = None, *, proc: str = "/proc"
) -> ProcessCgroup | None:
    """Return the cgroups of `pid`, or None when it is gone or is another process by now.

    Args:
        pid: In the pid namespace of the agent.
        start_time: Clock ticks since boot; None or 0 where not known, then it is not compared.
        proc: Where procfs is.
    """
    try:
        with Path(proc, str(pid), "cgroup").open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES)
    except OSError:
        return None
    # Compared after the read: had the pid been reused before it, the times would differ now.
    if start_time and start_time_ticks(proc, pid) != start_time:
        return None
    identity = parse_file(data)
    if identity.is_host and _stat(proc, pid)[:1] in ([b"Z"], [b"X"]):
        return None  # it ended, and was moved to the root cgroup: that says nothing
    return ProcessCgroup(identity, tuple(controller_paths(data).items()))
