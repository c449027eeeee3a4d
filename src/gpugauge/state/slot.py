"""A process slot: struct process, as the programs keep it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Slot

BLOCKED_DEPTH_BITS = 16
BLOCKED_UNIT_LOG2 = 6


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
        self._at = {
            name: at(name)
            for name in (
                "number",
                "tgid",
                "cgroup_id",
                "first_call_ns",
                "ended_ns",
                "flags",
                "threads",
                "hits",
                "blocked_word",
                "blocked_until_ns",
                "blocked_wall_ns",
                "comm",
            )
        }
        self._places_at = at("places")
        size = layout.size("device_state")
        # state, ended, drained_ns, idle_ns, drained_ticket, contexts
        self._places = struct.Struct("<" + "QQQQII" * abi.PLACE_COUNT)
        if self._places.size != size * abi.PLACE_COUNT:
            raise AssertionError("struct device_state has changed: SlotReading must follow")

    def read(self, data: bytes) -> ProcessSlot:
        """Return the slot in `data`."""
        at = self._at

        def u32(name: str) -> int:
            return int.from_bytes(data[at[name] : at[name] + 4], "little")

        def u64(name: str) -> int:
            return int.from_bytes(data[at[name] : at[name] + 8], "little")

        words = self._places.unpack_from(data, self._places_at)
        places = tuple(
            DeviceState(
                words[i] >> 32, words[i] & 0xFFFFFFFF, words[i + 2], words[i + 3], words[i + 5]
            )
            for i in range(0, len(words), 6)
        )
        blocked = u64("blocked_word")
        return ProcessSlot(
            number=u32("number"),
            pid=u32("tgid"),
            cgroup_id=u64("cgroup_id"),
            first_call_ns=u64("first_call_ns"),
            ended_ns=u64("ended_ns"),
            flags=u32("flags"),
            threads=u32("threads"),
            hits=u64("hits"),
            blocked_depth=blocked & ((1 << BLOCKED_DEPTH_BITS) - 1),
            blocked_start_ns=(blocked >> BLOCKED_DEPTH_BITS) << BLOCKED_UNIT_LOG2,
            blocked_until_ns=u64("blocked_until_ns"),
            blocked_wall_ns=u64("blocked_wall_ns"),
            places=places,
            comm=data[at["comm"] : at["comm"] + abi.LIMIT_COMM].split(b"\0", 1)[0],
        )
