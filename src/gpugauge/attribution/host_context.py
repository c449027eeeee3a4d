"""What the CPU side of a container was given and took, from its cgroup.

On cgroup v1 the quota, throttling and CPU time are in the `cpu` and `cpuacct`
trees; pressure exists only in v2. On a hybrid host both trees have the same
names, so the pressure of a v1 container is read from `unified`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpugauge.attribution.cgroup import container_levels
from gpugauge.attribution.cgroup_files import (
    NS_PER_US,
    quota_v1,
    quota_v2,
    read_number,
    read_pairs,
    stalled_ns,
)
from gpugauge.attribution.cgroup_tree import unified_root
from gpugauge.attribution.kept_files import KeptFiles
from gpugauge.model.snapshot import HostContext
from gpugauge.model.workload import Owner, Scope

RESOURCES = ("cpu", "io", "memory")
_V1_FOLDERS = {
    "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"),
    "cpuacct": ("cpuacct", "cpu,cpuacct", "cpuacct,cpu"),
}


Paths = tuple[tuple[str, str], ...]
"""(controller, cgroup path), v2 under ""."""


@dataclass(frozen=True, slots=True)
class _Folders:
    """Where a container's files are: its own folder in each tree, then its pod's."""

    v1_cpu: list[str]
    v1_acct: list[str]
    v2: list[str]


class HostContexts:
    """Reads host contexts below one mount of the cgroup trees."""

    def __init__(self, cgroup_root: str = "/sys/fs/cgroup", *, proc: str = "/proc") -> None:
        """Find which trees are mounted at `cgroup_root`."""
        self._unified = unified_root(cgroup_root)
        self._proc = proc
        self._files = KeptFiles()
        self._known: dict[Owner, tuple[Paths, _Folders]] = {}
        self._v1: dict[str, str] = {}
        for controller, folders in _V1_FOLDERS.items():
            for folder in (f"{cgroup_root}/{name}" for name in folders):
                if controller not in self._v1 and Path(folder).is_dir():
                    self._v1[controller] = folder
        if self._unified == cgroup_root:
            self._v1 = {}  # v2 alone: a cgroup may be called `cpu`

    def read(
        self, paths: Mapping[Owner, Paths], owners: Iterable[Owner]
    ) -> tuple[HostContext, ...]:
        """Return the context of each owner, in order; what is not known is None.

        Args:
            paths: (controller, cgroup path) by owner, v2 under "".
            owners: Whose contexts to read; the host's is that of the whole machine.
        """
        before, self._known = self._known, {}
        found = tuple(self._one(owner, paths.get(owner, ()), before.get(owner)) for owner in owners)
        self._files.turn()
        return found

    def close(self) -> None:
        """Close the files that are kept open."""
        self._files.close()

    def _one(
        self, owner: Owner, paths: Paths, before: tuple[Paths, _Folders] | None
    ) -> HostContext:
        if owner.scope is Scope.HOST:
            return HostContext(owner=owner, pressure_ns=self._pressure(f"{self._proc}/pressure"))
        if before is not None and before[0] == paths:
            context, found = self._read(owner, before[1])
            if found:
                self._known[owner] = before
                return context
        folders = self._look(dict(paths))
        context, found = self._read(owner, folders)
        if found:
            self._known[owner] = paths, folders
        return context

    def _read(self, owner: Owner, folders: _Folders) -> tuple[HostContext, bool]:
        """Return the context from these folders, and whether they are there."""
        read, v1_cpu, v1_acct, v2 = self._files.read, folders.v1_cpu, folders.v1_acct, folders.v2
        stats = [] if v1_cpu else [read_pairs(f"{folder}/cpu.stat", read) for folder in v2]
        if v1_cpu:
            quotas = [quota_v1(folder, read) for folder in v1_cpu]
            # In nanoseconds on v1.
            throttled = [read_pairs(f"{f}/cpu.stat", read).get("throttled_time") for f in v1_cpu]
        else:
            quotas = [quota_v2(f"{folder}/cpu.max", read) for folder in v2]
            us = [stat.get("throttled_usec") for stat in stats]
            throttled = [None if value is None else value * NS_PER_US for value in us]
        used = read_number(f"{v1_acct[0]}/cpuacct.usage", read) if v1_acct else None
        if used is None and v2:
            usage = (stats or [read_pairs(f"{v2[0]}/cpu.stat", read)])[0].get("usage_usec")
            used = None if usage is None else usage * NS_PER_US
        set_quotas = [quota for quota in quotas if quota is not None]
        known = [value for value in throttled if value is not None]
        context = HostContext(
            owner=owner,
            # The tightest of the container's and the pod's holds.
            cpu_quota_cores=min(set_quotas, default=None),
            # Either level stops the container's threads, and each counts its own stops.
            cpu_throttled_ns=sum(known) if known else None,
            cpu_used_ns=used,
            pressure_ns=self._pressure(v2[0], ".pressure") if v2 else {},
        )
        return context, used is not None

    def _look(self, paths: Mapping[str, str]) -> _Folders:
        cpu, acct = (self._folders(self._v1.get(c, ""), c, paths) for c in _V1_FOLDERS)
        return _Folders(cpu, acct, self._folders(self._unified, "", paths))

    @staticmethod
    def _folders(root: str, controller: str, paths: Mapping[str, str]) -> list[str]:
        """Return the container's folder in one tree, then its pod's; none where it is not."""
        # The runtime gives a container one name in all trees; which line of /proc has it
        # differs: on hybrid hosts v2 may name the runtime's service, and of a process that
        # is gone only the v2 path is known.
        for name in (controller, "cpu", "memory", "", "cpuacct"):
            levels = container_levels(paths.get(name, "")) if root else ()
            if levels and Path(root + levels[0]).is_dir():
                return [root + level for level in levels]
        return []

    def _pressure(self, prefix: str, suffix: str = "") -> dict[str, int]:
        read = self._files.read
        found = {name: stalled_ns(f"{prefix}/{name}{suffix}", read) for name in RESOURCES}
        return {name: value for name, value in found.items() if value is not None}
