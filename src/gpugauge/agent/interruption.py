"""Probes that are taken off while processes use them: what was open is closed, by hand.

A call that is open then returns unseen. Its row would say for ever that the
thread waits. And work may be put on the device that nobody counts: known idle
must not go on. With all probes of the library off no program touches these rows,
but for the end of a thread.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

from gpugauge.ebpf.loader import Loaded
from gpugauge.model import abi
from gpugauge.state.slot import BLOCKED_DEPTH_BITS, BLOCKED_UNIT_LOG2

UPDATE_EXIST = 2
THREADS_LIMIT = 4096
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_DEVICE = struct.Struct("<QQQQ")
"""struct device_state: state, ended, drained_ns, idle_ns."""


class Interruption:
    """Closes what processes have open."""

    def __init__(self, loaded: Loaded) -> None:
        layout = loaded.layout
        self._maps = loaded.maps
        self._slots = loaded.maps["processes"].memory(writable=True)
        self._slot_bytes = layout.size("process") + 7 & ~7
        self._open_at = layout.offset("thread", "open_sp")
        self._flags_at = layout.offset("thread", "open_flags")
        self._at = {
            name: layout.offset("process", name)
            for name in (
                "first_call_ns",
                "blocked_word",
                "blocked_until_ns",
                "blocked_wall_ns",
                "places",
            )
        }
        self._device_bytes = layout.size("device_state")
        self._interrupted: set[int] = set()

    def close(self) -> None:
        """Let go of the mapped memory."""
        self._slots.release()

    def take(self) -> set[int]:
        """Return the pids that were interrupted since this was asked last."""
        found = set()
        while self._interrupted:
            found.add(self._interrupted.pop())
        return found

    def interrupt(self, pids: Iterable[int]) -> None:
        """Close the open calls of processes whose probes are off."""
        for pid in pids:
            self._interrupted.add(pid)
            slot = self._maps["process_slots"].lookup(_U32.pack(pid))
            if slot is None:
                continue
            for tid in thread_ids(pid):
                self._close_call(_U32.pack(tid))
            start = _U32.unpack(slot)[0] * self._slot_bytes
            self._close_wait(start)
            for place in range(abi.PLACE_COUNT):
                self._end_idle(start + self._at["places"] + place * self._device_bytes)

    def _close_call(self, key: bytes) -> None:
        threads = self._maps["threads"]
        row = threads.lookup(key)
        if row is None or not _U64.unpack_from(row, self._open_at)[0]:
            return
        changed = bytearray(row)
        _U64.pack_into(changed, self._open_at, 0)
        _U32.pack_into(changed, self._flags_at, 0)
        try:
            threads.update(key, bytes(changed), UPDATE_EXIST)
        except OSError:
            return  # the thread ended meanwhile

    def _close_wait(self, start: int) -> None:
        """Blocked wall time until now counts; then nobody waits, as far as is known."""
        word = self._get(start, "blocked_word")
        if not word & ((1 << BLOCKED_DEPTH_BITS) - 1):
            return
        began = (word >> BLOCKED_DEPTH_BITS) << BLOCKED_UNIT_LOG2
        until = self._get(start, "blocked_until_ns")
        now = time.monotonic_ns() - self._get(start, "first_call_ns")
        wall = self._get(start, "blocked_wall_ns") + max(0, now - max(began, until))
        self._put(start, "blocked_word", 0)
        self._put(start, "blocked_wall_ns", wall)
        self._put(start, "blocked_until_ns", max(now, until))

    def _end_idle(self, at: int) -> None:
        """What is outstanding is not known from here on, and no call is open."""
        state, _ended, drained_ns, idle_ns = _DEVICE.unpack_from(self._slots, at)
        ticket, stream = state >> 32, state & 0xFFFFFFFF
        if not ticket and not drained_ns:
            return  # never used
        if stream == abi.STREAM_IDLE and drained_ns:
            idle_ns += max(0, time.monotonic_ns() - drained_ns)
        _DEVICE.pack_into(
            self._slots, at, ticket << 32 | abi.STREAM_MIXED, ticket, drained_ns, idle_ns
        )

    def _get(self, start: int, name: str) -> int:
        return int(_U64.unpack_from(self._slots, start + self._at[name])[0])

    def _put(self, start: int, name: str, value: int) -> None:
        _U64.pack_into(self._slots, start + self._at[name], value)


def thread_ids(pid: int) -> list[int]:
    """Return the threads of a process; none when it is gone."""
    try:
        names = [entry.name for entry in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    return [int(name) for name in names[:THREADS_LIMIT]]
