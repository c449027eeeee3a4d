"""A container for the demo's programs: cgroups named as a container runtime does, `docker/ID`."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
HIERARCHIES = ("cpu", "cpuacct", "cpu,cpuacct", "memory", "unified", "")
"""Of cgroup v1 and hybrid hosts, and at last v2 alone."""
WANTED = "+cpu +memory"
PERIOD_US = 100_000
_JOIN = """left=$1; shift
while [ "$left" -gt 0 ]; do echo $$ > "$1" || exit 1; shift; left=$((left - 1)); done
exec "$@"
"""


class Container:
    """The cgroups of one container; a process that joins belongs to it."""

    def __init__(self, name: str) -> None:
        """Make the cgroups.

        Raises:
            OSError: this machine does not allow it.
        """
        self.id = hashlib.sha256(name.encode()).hexdigest()
        self._folders: list[Path] = []
        for root in dict.fromkeys((ROOT / each).resolve() for each in HIERARCHIES):
            if not (root / "cgroup.procs").exists():
                continue
            folder = root / "docker" / self.id
            (root / "docker").mkdir(exist_ok=True)
            for parent in (root, root / "docker"):  # v2 gives a child what its parent passes on
                if (parent / "cgroup.subtree_control").exists():
                    with contextlib.suppress(OSError):
                        (parent / "cgroup.subtree_control").write_text(WANTED)
            folder.mkdir(exist_ok=True)
            self._folders.append(folder)
        if not self._folders:
            raise FileNotFoundError(f"no cgroup hierarchy is mounted below {ROOT}")

    def command(self, command: list[str]) -> list[str]:
        """Return a command that joins the container and then becomes the given one."""
        files = [str(folder / "cgroup.procs") for folder in self._folders]
        return ["sh", "-c", _JOIN, "sh", str(len(files)), *files, *command]

    def limit_cpu(self, cores: float | None) -> str:
        """Set the quota, None for no limit, and return the file that was written.

        Raises:
            OSError: there is no such controller here.
        """
        quota = -1 if cores is None else int(cores * PERIOD_US)
        for folder in self._folders:
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text(str(quota))
                return str(folder / "cpu.cfs_quota_us")
            if (folder / "cpu.max").exists():
                (folder / "cpu.max").write_text(f"{'max' if quota < 0 else quota} {PERIOD_US}")
                return str(folder / "cpu.max")
        raise FileNotFoundError("no cgroup here has a CPU quota: the cpu controller is elsewhere")

    def remove(self) -> None:
        """Remove the cgroups, once their last process is gone."""
        for folder in self._folders:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.1)
            with contextlib.suppress(OSError):  # others may have containers there
                folder.parent.rmdir()
