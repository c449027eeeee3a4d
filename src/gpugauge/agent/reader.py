"""Reads all maps once a tick, in the order that never counts a call twice."""

from __future__ import annotations

import struct
import time

from gpugauge.agent.quotas import Quotas
from gpugauge.ebpf.layout import Layout
from gpugauge.ebpf.loader import Loaded
from gpugauge.model import abi
from gpugauge.model.abi import Slot
from gpugauge.state.raw import Chunks, RawTick

_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")
_LIMITS = struct.Struct("<QQ")


class Reader:
    """Reads maps into a RawTick, and reaps the rows of ended processes."""

    def __init__(self, loaded: Loaded) -> None:
        layout: Layout = loaded.layout
        self._maps = loaded.maps
        self.quotas = Quotas(loaded)
        self._slots = loaded.maps["processes"].memory(writable=True)
        self._slot_bytes = layout.size("process") + 7 & ~7
        self._number_at = layout.offset("process", "number")
        self._issue_at = layout.offset("process", "issue_ns") + Slot.LAUNCH * 8
        self._flags_at = layout.offset("process", "agent_flags")
        self._limits = b""
        self._losses = loaded.maps["losses"].memory()
        self._losses_bytes = layout.size("losses")
        self._words = self._slots[: self._slot_bytes * abi.LIMIT_PROCESSES].cast("I")

    def read(self) -> RawTick:
        """Read all maps.

        The process slots come first: what is marked ended there has its last
        counts in the reads that follow.
        """
        # Before the rest: what goes on then, idle time or a wait, is never counted too far.
        now_ns = time.monotonic_ns()
        slots = {index: self._slot(index) for index in self._used_slots()}
        process_counts = self._chunks("process_counts")
        thread_counts = self._chunks("thread_counts")
        return RawTick(
            time_monotonic_ns=now_ns,
            slots=slots,
            process_counts=process_counts,
            thread_counts=thread_counts,
            threads=self._chunks("threads"),
            errors=self._chunks("errors"),
            memories=self._chunks("memories"),
            contexts=self._chunks("contexts"),
            devices=self._chunks("devices"),
            losses=bytes(self._losses[: self._losses_bytes]),
        )

    def memories(self) -> Chunks:
        """Read the map of requested memory alone."""
        return self._chunks("memories")

    def set_issue_ns(self, slot: int, issue_ns: int) -> None:
        """Tell the programs what a launch of a process costs."""
        _U64.pack_into(self._slots, slot * self._slot_bytes + self._issue_at, issue_ns)

    def set_seen_late(self, slot: int) -> None:
        """Tell the programs that contexts of a process may be unseen."""
        self._set_flag(slot, abi.PROCESS_SEEN_LATE)

    def set_untraced(self, slot: int) -> None:
        """Have the calls of a process not counted from now on: it opted out."""
        self._set_flag(slot, abi.PROCESS_UNTRACED)

    def set_size_limits(self, device_bytes: int, host_bytes: int) -> None:
        """Say what no size can exceed; 0: not known.

        Args:
            device_bytes: Memory of the largest device.
            host_bytes: Memory of this machine.
        """
        limits = _LIMITS.pack(device_bytes, host_bytes)
        if limits != self._limits:
            self._limits = limits
            self._maps["size_limits"].update(bytes(4), limits)

    def reap(self, slots: dict[int, int]) -> None:
        """Delete all rows of ended processes and hand their slots back.

        Args:
            slots: Slot by process number.
        """
        if not slots:
            return
        numbers = frozenset(slots)
        over = frozenset(slots.values())
        holders = [self.quotas.holder(self._slot(slot)) for slot in over]
        for name in (
            "threads",
            "process_counts",
            "thread_counts",
            "contexts",
            "streams",
            "event_marks",
            "graphs",
            "captures",
            "allocations",
            "devices",
            "memories",
            "errors",
        ):
            self._delete(name, numbers)
        for slot in slots.values():
            start = slot * self._slot_bytes
            self._slots[start : start + self._slot_bytes] = bytes(self._slot_bytes)
            self._maps["free_slots"].push(slot.to_bytes(4, "little"))
        live = {self.quotas.key_of(self._slot(slot)) for slot in self._used_slots()}
        self.quotas.give_back(holders, live)

    def close(self) -> None:
        """Let go of the mapped memory."""
        self._words.release()
        self._slots.release()
        self._losses.release()

    def _set_flag(self, slot: int, flag: int) -> None:
        """Set a flag among those that only the agent writes: the programs change the others."""
        at = slot * self._slot_bytes + self._flags_at
        (flags,) = _U32.unpack_from(self._slots, at)
        _U32.pack_into(self._slots, at, flags | flag)

    def _used_slots(self) -> list[int]:
        step = self._slot_bytes // 4
        numbers = self._words[self._number_at // 4 :: step].tolist()
        return [index for index, number in enumerate(numbers) if number]

    def _slot(self, index: int) -> bytes:
        start = index * self._slot_bytes
        return bytes(self._slots[start : start + self._slot_bytes])

    def _chunks(self, name: str) -> Chunks:
        return tuple((keys, values) for keys, values, _ in self._maps[name].batch())

    def _delete(self, name: str, numbers: frozenset[int]) -> None:
        """Delete the rows of these processes, by the number that their keys begin with.

        Rows of threads and thread_counts are keyed by thread; those of ended threads went
        with the thread, so what is left belongs to a process whose end the
        programs did not see.
        """
        table = self._maps[name]
        size = table.key_size
        doomed = bytearray()
        by_value = name in ("thread_counts", "threads")
        for keys, values, _ in table.batch():
            data, step = (values, table.value_size) if by_value else (keys, size)
            words = memoryview(data).cast("I")
            for i, number in enumerate(words[0 :: step // 4].tolist()):
                if number in numbers:
                    doomed += keys[i * size : (i + 1) * size]
        if doomed:
            table.delete_batch(bytes(doomed))
