"""From a cgroup id to its path, also when no process is left to ask.

`bpf_get_current_cgroup_id` gives the inode number of the process's directory in
the cgroup2 tree, on hybrid hosts too (there the tree is `unified` and its names
are the same). The tree is walked a bounded piece at a time, and a directory that
went away is remembered for a while.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

DIRECTORIES_LIMIT = 16_384
DEPTH_LIMIT = 24
STEP_DIRECTORIES = 2_048
"""Directories visited by one step: about 20 ms."""
KEEP_SECONDS = 900.0
WALK_AT_MOST_EVERY_SECONDS = 0.2


def unified_root(cgroup_root: str) -> str:
    """Return where the cgroup2 tree is below `cgroup_root`, or "" where there is none."""
    for candidate in (cgroup_root, f"{cgroup_root}/unified"):
        if Path(candidate, "cgroup.controllers").is_file():
            return candidate
    return ""


def host_cgroup_root(proc: str = "/proc") -> str:
    """Return where the host's cgroup trees are seen.

    On v2 a container has a cgroup namespace of its own, and its /sys/fs/cgroup shows
    only itself; with the host's pids the first process's mount shows all.
    """
    own = "/sys/fs/cgroup"
    try:
        private = Path("/proc/self/ns/cgroup").readlink() != Path(proc, "1/ns/cgroup").readlink()
    except OSError:
        private = False
    first = f"{proc}/1/root{own}"
    return first if private and Path(first).is_dir() else own


class CgroupTree:
    """A map of cgroup ids to paths, kept by walking."""

    def __init__(self, root: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the root of a cgroup2 tree ("" where there is none: nothing is found)."""
        self._root = root
        self._clock = clock
        self._paths: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._pending: deque[tuple[str, int]] = deque()
        self._last_walk = float("-inf")
        self.truncated = 0
        """Directories left out because a limit was reached."""

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, cgroup_id: int) -> str | None:
        """Return the path of a cgroup below the root (`/kubepods/...`), or None if not known.

        An id that is not known starts a walk, at most every 200 ms.
        """
        known = self._paths.get(cgroup_id)
        if known is None and cgroup_id and self._root:
            now = self._clock()
            if self._pending or now - self._last_walk >= WALK_AT_MOST_EVERY_SECONDS:
                self.step()
                known = self._paths.get(cgroup_id)
        return known[0] if known else None

    def step(self, directories: int = STEP_DIRECTORIES) -> bool:
        """Walk on, at most this many directories; True when the walk has come round."""
        if not self._root:
            return True
        now = self._clock()
        if not self._pending:
            self._last_walk = now
            self._forget(now)
            self._pending.append(("", 0))
            self._see_root(now)
        while self._pending and directories > 0:
            directories -= 1
            self._visit(*self._pending.popleft(), now)
        return not self._pending

    def _see_root(self, now: float) -> None:
        try:
            self._keep(Path(self._root).stat().st_ino, "/", now)
        except OSError:
            self._pending.clear()

    def _visit(self, path: str, depth: int, now: float) -> None:
        try:
            with os.scandir(self._root + path) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    child = f"{path}/{entry.name}"
                    self._keep(entry.inode(), child, now)
                    if depth + 1 >= DEPTH_LIMIT or len(self._pending) >= DIRECTORIES_LIMIT:
                        self.truncated += 1
                    elif self._has_children(entry):
                        self._pending.append((child, depth + 1))
        except OSError:
            return  # the cgroup ended between the walk of its parent and now

    @staticmethod
    def _has_children(entry: os.DirEntry[str]) -> bool:
        # kernfs counts a directory's subdirectories in its links (2 without any), which
        # saves reading the forty control files of every leaf.
        try:
            return entry.stat(follow_symlinks=False).st_nlink != 2
        except OSError:
            return False

    def _keep(self, cgroup_id: int, path: str, now: float) -> None:
        self._paths[cgroup_id] = (path, now)
        self._paths.move_to_end(cgroup_id)
        while len(self._paths) > DIRECTORIES_LIMIT:
            self._paths.popitem(last=False)
            self.truncated += 1

    def _forget(self, now: float) -> None:
        while self._paths:
            cgroup_id, (_, seen) = next(iter(self._paths.items()))
            if now - seen < KEEP_SECONDS:
                return
            del self._paths[cgroup_id]
