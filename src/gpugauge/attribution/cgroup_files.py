"""Numbers from the files of one cgroup, read within bounds; absent or odd is None."""

from __future__ import annotations

import re
from collections.abc import Callable

Read = Callable[[str], bytes | None]
"""The beginning of a file by its path; None where there is none."""

NS_PER_US = 1_000
_NUMBER = re.compile(rb"\s*(-?[0-9]{1,20})\s*", re.ASCII)
_PAIR = re.compile(rb"^([^ \n]*) (-?[0-9]{1,20})[ \t\r]*$", re.MULTILINE)
_QUOTA = re.compile(rb"\s*([0-9]{1,20})\s+([0-9]{1,20})\s*", re.ASCII)
_SOME = re.compile(rb"^some [^\n]*total=([0-9]{1,20})[ \t\r]*$", re.MULTILINE)


def read_number(path: str, read: Read) -> int | None:
    """Return the whole number that a file holds."""
    found = _NUMBER.fullmatch(read(path) or b"")
    return int(found[1]) if found else None


def read_pairs(path: str, read: Read) -> dict[str, int]:
    """Return the `name value` lines of a file such as cpu.stat."""
    pairs = _PAIR.findall(read(path) or b"")
    return {name.decode("ascii", "replace"): int(value) for name, value in pairs}


def quota_v2(path: str, read: Read) -> float | None:
    """Return the CPUs that cpu.max allows (`QUOTA PERIOD` in us), None for `max` or absent."""
    found = _QUOTA.fullmatch(read(path) or b"")
    quota, period = (int(found[1]), int(found[2])) if found else (0, 0)
    return quota / period if quota and period else None


def quota_v1(folder: str, read: Read) -> float | None:
    """Return the CPUs that cpu.cfs_quota_us allows, None for -1 or absent."""
    quota = read_number(f"{folder}/cpu.cfs_quota_us", read)
    period = read_number(f"{folder}/cpu.cfs_period_us", read)
    return quota / period if quota and quota > 0 and period and period > 0 else None


def stalled_ns(path: str, read: Read) -> int | None:
    """Return for how long some task was stalled, from a pressure file (`some ... total=US`)."""
    found = _SOME.search(read(path) or b"")
    return int(found[1]) * NS_PER_US if found else None
