"""Numbers from the files of one cgroup, read within bounds; absent or odd is None."""

from __future__ import annotations

import os

FILE_LIMIT_BYTES = 8_192
NS_PER_US = 1_000


def read_text(path: str) -> str | None:
    """Return the beginning of a file, or None where there is none."""
    # Bare descriptors: a file object costs more than the reading, and there are hundreds.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return os.read(descriptor, FILE_LIMIT_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_number(path: str) -> int | None:
    """Return the whole number that a file holds."""
    text = read_text(path)
    return _number(text.strip()) if text is not None else None


def read_pairs(path: str) -> dict[str, int]:
    """Return the `name value` lines of a file such as cpu.stat."""
    found: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        number = _number(value.strip())
        if number is not None:
            found[name] = number
    return found


def quota_v2(path: str) -> float | None:
    """Return the CPUs that cpu.max allows (`QUOTA PERIOD` in us), None for `max` or absent."""
    parts = (read_text(path) or "").split()
    quota, period = (_number(part) for part in parts) if len(parts) == 2 else (None, None)
    return quota / period if quota and period else None


def quota_v1(folder: str) -> float | None:
    """Return the CPUs that cpu.cfs_quota_us allows, None for -1 or absent."""
    quota = read_number(f"{folder}/cpu.cfs_quota_us")
    period = read_number(f"{folder}/cpu.cfs_period_us")
    return quota / period if quota and quota > 0 and period else None


def stalled_ns(path: str) -> int | None:
    """Return for how long some task was stalled, from a pressure file (`some ... total=US`)."""
    for line in (read_text(path) or "").splitlines():
        kind, _, rest = line.partition(" ")
        total = _number(rest.rpartition("total=")[2]) if "total=" in rest else None
        if kind == "some" and total is not None:
            return total * NS_PER_US
    return None


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    return int(text)
