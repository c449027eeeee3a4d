"""The ring buffer of rare things: it wakes the agent, and says little.

Whatever an event says can be rebuilt from the maps at the next tick; losing
one loses time, not counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpugauge.ebpf.loader import Loaded
from gpugauge.ebpf.ring import Ring
from gpugauge.model.abi import EventType

_HEAD = struct.Struct("<IIII")
"""type, process number, thread group id, thread id."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What the ring told since it was last read."""

    ended: tuple[int, ...]
    """Pids of processes that ended."""
    executed: tuple[int, ...]
    """Pids of processes that began another program."""
    contexts: int
    """Contexts that were made."""


class Events:
    """Reads the ring buffer."""

    def __init__(self, loaded: Loaded) -> None:
        self._ring = Ring(loaded.maps["events"])

    def wait(self, timeout_s: float) -> bool:
        """Wait for an event; return whether there is one."""
        return self._ring.wait(timeout_s)

    def read(self) -> Happened:
        """Read what is there."""
        ended: list[int] = []
        executed: list[int] = []
        contexts = 0
        for record in self._ring.read():
            if len(record) < _HEAD.size:
                continue
            kind, _number, pid, _tid = _HEAD.unpack_from(record)
            if kind == EventType.PROCESS_EXIT:
                ended.append(pid)
            elif kind == EventType.PROCESS_EXEC:
                executed.append(pid)
            elif kind == EventType.CONTEXT:
                contexts += 1
        return Happened(tuple(ended), tuple(executed), contexts)

    def close(self) -> None:
        """Stop reading."""
        self._ring.close()
