"""What the agent itself uses."""

from __future__ import annotations

import os
import resource
from functools import cache
from pathlib import Path

from gpugauge.units import NS_PER_SECOND


def cpu_ns() -> int:
    """Return CPU time of this process, user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * NS_PER_SECOND)


@cache
def machine_memory_bytes() -> int:
    """Return the memory of this machine; 0 where Linux does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def rss_bytes() -> int:
    """Return resident memory of this process (statm, proc(5)); 0 where /proc does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
