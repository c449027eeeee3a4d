"""A process slot: struct process, as the programs keep it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Slot
from gpugauge.state.memo import Memo

BLOCKED_DEPTH_BITS = 16
BLOCKED_UNIT_LOG2 = 6
_KINDS = {
    "number": "I",
    "tgid": "I",
    "cgroup_id": "Q",
    "first_call_ns": "Q",
    "ended_ns": "Q",
    "flags": "I",
    "threads": "I",
    "hits": "Q",
    "blocked_word": "Q",
    "blocked_until_ns": "Q",
    "blocked_wall_ns": "Q",
    "comm": f"{abi.LIMIT_COMM}s",
}
"""Members of struct process that are read, and their types (module struct)."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What one process has outstanding on one device."""

    ticket: int
    stream: int
    drained_ns: int
    idle_ns: int
    contexts: int

    def idle_until(self, now_ns: int) -> int:
        """Return known idle time, the current stretch included."""
        if self.stream == abi.STREAM_IDLE and self.drained_ns:
            return self.idle_ns + max(0, now_ns - self.drained_ns)
        return self.idle_ns


UNUSED = DeviceState(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ProcessSlot:
    """One process, as the programs see it."""

    number: int
    pid: int
    cgroup_id: int
    first_call_ns: int
    ended_ns: int
    flags: int
    threads: int
    hits: int
    blocked_depth: int
    blocked_start_ns: int
    blocked_until_ns: int
    blocked_wall_ns: int
    places: tuple[DeviceState, ...]
    comm: bytes

    @property
    def ended(self) -> bool:
        """True when the process exited or became another program."""
        return bool(self.flags & abi.PROCESS_ENDED)

    def blocked_until(self, now_ns: int) -> int:
        """Return blocked wall time, a wait that goes on included."""
        if not self.blocked_depth:
            return self.blocked_wall_ns
        start_ns = max(self.blocked_start_ns, self.blocked_until_ns)
        return self.blocked_wall_ns + max(0, now_ns - self.first_call_ns - start_ns)


class SlotReading:
    """Reads slots by the object's own layout."""

    def __init__(self, layout: Layout) -> None:
        def at(path: str) -> int:
            return layout.offset("process", path)

        self.size_bytes = layout.size("process")
        self.number_at = at("number")
        self.issue_at = at("issue_ns") + Slot.LAUNCH * 8
        self.flags_at = at("flags")
        # All members that are read, in the order they lie in, with one call.
        wanted = sorted((at(name), name) for name in _KINDS)
        self._names = tuple(name for _, name in wanted)
        form, end = "<", 0
        for offset, name in wanted:
            form += f"{offset - end}x{_KINDS[name]}"
            end = offset + struct.calcsize("<" + _KINDS[name])
        self._members = struct.Struct(form)
        self._memo: Memo[bytes, ProcessSlot] = Memo(self._read)
        self._places_at = at("places")
        size = layout.size("device_state")
        # state, ended, drained_ns, idle_ns, drained_ticket, contexts
        self._places = struct.Struct("<" + "QQQQII" * abi.PLACE_COUNT)
        if self._places.size != size * abi.PLACE_COUNT:
            raise AssertionError("struct device_state has changed: SlotReading must follow")

    def turn(self) -> None:
        """Begin a tick."""
        self._memo.turn()

    def read(self, data: bytes) -> ProcessSlot:
        """Return the slot in `data`."""
        return self._memo(data)

    def _read(self, data: bytes) -> ProcessSlot:
        words = self._places.unpack_from(data, self._places_at)
        places = tuple(
            DeviceState(
                words[i] >> 32, words[i] & 0xFFFFFFFF, words[i + 2], words[i + 3], words[i + 5]
            )
            if any(words[i : i + 6])
            else UNUSED
            for i in range(0, len(words), 6)
        )
        members = dict(zip(self._names, self._members.unpack_from(data), strict=True))
        blocked = members["blocked_word"]
        return ProcessSlot(
            number=members["number"],
            pid=members["tgid"],
            cgroup_id=members["cgroup_id"],
            first_call_ns=members["first_call_ns"],
            ended_ns=members["ended_ns"],
            flags=members["flags"],
            threads=members["threads"],
            hits=members["hits"],
            blocked_depth=blocked & ((1 << BLOCKED_DEPTH_BITS) - 1),
            blocked_start_ns=(blocked >> BLOCKED_DEPTH_BITS) << BLOCKED_UNIT_LOG2,
            blocked_until_ns=members["blocked_until_ns"],
            blocked_wall_ns=members["blocked_wall_ns"],
            places=places,
            comm=members["comm"].split(b"\0", 1)[0],
        )
