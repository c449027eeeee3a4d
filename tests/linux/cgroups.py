"""Cgroups of a test: version 2 can be mounted beside whatever this machine uses."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

JOIN = 'echo $$ > "$0"/cgroup.procs && exec "$@"'


class Cgroup:
    """One cgroup of version 2."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    @property
    def id(self) -> int:
        """As bpf_get_current_cgroup_id gives it."""
        return self.path.stat().st_ino

    def remove(self) -> None:
        """Kill what is in it, and remove it."""
        (self.path / "cgroup.kill").write_text("1")
        while "populated 1" in (self.path / "cgroup.events").read_text():
            time.sleep(0.01)
        self.path.rmdir()

    def command(self, arguments: list[str]) -> list[str]:
        """Return a command that runs in this cgroup."""
        return ["sh", "-c", JOIN, str(self.path), *arguments]


@contextmanager
def cgroups(folder: Path, *names: str) -> Iterator[list[Cgroup]]:
    """Yield cgroups of their own; they must be empty at the end."""
    mount = folder / "cgroup"
    mount.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "none", mount], check=True)
    made: list[Cgroup] = []
    try:
        made += [Cgroup(mount / f"gpugauge-test-{os.getpid()}-{name}") for name in names]
        yield made
    finally:
        for each in made:
            each.remove()
        subprocess.run(["umount", mount], check=True)
