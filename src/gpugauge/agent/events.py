"""The ring buffer of rare things: it wakes the agent, and says little.

Whatever an event says can be rebuilt from the maps at the next tick; losing
one loses time, not counts.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gpugauge.ebpf.loader import Loaded
from gpugauge.ebpf.ring import Ring
from gpugauge.model.abi import EventType

_HEAD = struct.Struct("<IIIIQQQQ")
"""type, process number, thread group id, thread id, cgroup id, time, two values."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A call of cuCheckpointProcessLock or cuCheckpointProcessUnlock."""

    caller: int
    """Its pid."""
    target: int
    """The pid it names, as the caller's pid namespace has it."""
    link: int
    """Of the library it was called in."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What the ring told since it was last read."""

    ended: tuple[int, ...]
    """Pids of processes that ended."""
    executed: tuple[int, ...]
    """Pids of processes that began another program."""
    contexts: Mapping[int, int] = field(default_factory=dict)
    """Processes that made a context: their numbers by pid."""
    first_calls: tuple[int, ...] = ()
    """Pids of processes that made their first call."""
    locks: tuple[Checkpoint, ...] = ()
    """Processes that are about to be checkpointed."""
    unlocks: tuple[Checkpoint, ...] = ()
    """Processes whose checkpoint is over."""
    doubled: frozenset[tuple[int, int]] = frozenset()
    """Pairs of links that hit the same call: they are of one file."""


class Events:
    """Reads the ring buffer."""

    def __init__(self, loaded: Loaded) -> None:
        self._ring = Ring(loaded.maps["events"])
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ring.wait_for(self._woken)

    def wait(self, timeout_s: float) -> bool:
        """Wait for an event; return whether there may be one."""
        happened = self._ring.wait(timeout_s)
        if happened:
            with suppress(BlockingIOError):  # it was no call of `wake`
                os.eventfd_read(self._woken)
        return happened

    def wake(self) -> None:
        """End the wait; for any thread, until closed."""
        os.eventfd_write(self._woken, 1)

    def read(self) -> Happened:
        """Read what is there."""
        pids: dict[int, list[int]] = {}
        checkpoints: dict[int, list[Checkpoint]] = {}
        doubled: set[tuple[int, int]] = set()
        contexts: dict[int, int] = {}
        for record in self._ring.read():
            if len(record) < _HEAD.size:
                continue
            kind, number, pid, _tid, _cgroup, _time, first, second = _HEAD.unpack_from(record)
            pids.setdefault(kind, []).append(pid)
            if kind == EventType.CONTEXT:
                contexts[pid] = number
            if kind == EventType.DUPLICATE:
                doubled.add((first, second))
            if kind in (EventType.CHECKPOINT_LOCK, EventType.CHECKPOINT_UNLOCK):
                checkpoints.setdefault(kind, []).append(Checkpoint(pid, first, second))
        return Happened(
            ended=tuple(pids.get(EventType.PROCESS_EXIT, ())),
            executed=tuple(pids.get(EventType.PROCESS_EXEC, ())),
            contexts=contexts,
            first_calls=tuple(pids.get(EventType.PROCESS_FIRST_CALL, ())),
            locks=tuple(checkpoints.get(EventType.CHECKPOINT_LOCK, ())),
            unlocks=tuple(checkpoints.get(EventType.CHECKPOINT_UNLOCK, ())),
            doubled=frozenset(doubled),
        )

    def close(self) -> None:
        """Stop reading."""
        self._ring.close()
        os.close(self._woken)
