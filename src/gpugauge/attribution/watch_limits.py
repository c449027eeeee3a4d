"""How long a watch waits, and how much it reads."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """Times and bounds of one reflector; tests make them short."""

    watch_seconds: float = 120.0
    """The server ends a watch after about this long; it is taken up again without a list."""
    silence_seconds: float = 135.0
    """Longest wait for any byte of a watch: must exceed `watch_seconds`."""
    read_seconds: float = 15.0
    """Longest silence inside a list."""
    list_seconds: float = 60.0
    """Longest time for one page of a list."""
    backoff_first_seconds: float = 1.0
    backoff_last_seconds: float = 60.0
    forbidden_seconds: float = 60.0
    """Wait after 401 or 403: rights are given by people, seldom."""
    jitter_seconds: float = 2.0
    """A list after a lost history waits a random part of this."""
    page_bytes: int = 8 * MIB
    line_bytes: int = 4 * MIB
    """etcd refuses objects above 1.5 MiB; as JSON they grow."""
    page_items: int = 100
    items: int = 20_000
    """More in one list are refused: it is not the list of one node."""
