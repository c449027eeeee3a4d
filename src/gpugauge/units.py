"""Units, and how numbers with units are written for people."""

from __future__ import annotations

NS_PER_SECOND = 1_000_000_000
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def seconds(duration_ns: int) -> float:
    """Return nanoseconds as seconds."""
    return duration_ns / NS_PER_SECOND


def bytes_text(size_bytes: float) -> str:
    """Return a size for people, in binary units: `4.0 MiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes:.0f} B"


def duration_text(duration_ns: float) -> str:
    """Return a duration for people: `1.90 ms`."""
    for unit, name in ((NS_PER_SECOND, "s"), (1_000_000, "ms"), (1_000, "us")):
        if abs(duration_ns) >= unit:
            return f"{duration_ns / unit:.2f} {name}"
    return f"{duration_ns:.0f} ns"
