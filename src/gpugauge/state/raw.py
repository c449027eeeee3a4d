"""What one tick read from the maps: bytes and records, before any meaning."""

from __future__ import annotations

from dataclasses import dataclass

Chunks = tuple[tuple[bytes, bytes], ...]
"""Parts of a map as it was read: (keys, values), each laid end to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTick:
    """One read of all maps.

    `process_counts` was read before `thread_counts`: a thread that ended in
    between is missing for one tick, and never counted twice. `slots` holds the
    live process slots as they were before both reads, so that what is marked
    ended there is final here.
    """

    time_monotonic_ns: int
    slots: dict[int, bytes]
    """struct process by slot."""
    process_counts: Chunks
    thread_counts: Chunks
    threads: Chunks
    errors: Chunks
    memories: Chunks
    contexts: Chunks
    devices: Chunks
    losses: bytes
