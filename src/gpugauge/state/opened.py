"""Calls that have not returned: a call that never returns must show as rising."""

from __future__ import annotations

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import OpenCall
from gpugauge.state.raw import Chunks

CAUSE_OF_SLOT = {
    Slot.SYNCHRONIZE: Cause.SYNCHRONIZE,
    Slot.COPY_HTOD: Cause.COPY,
    Slot.COPY_DTOH: Cause.COPY,
    Slot.COPY_DTOD: Cause.COPY,
    Slot.COPY_PEER: Cause.COPY,
    Slot.COPY_UNKNOWN: Cause.COPY,
    Slot.SET: Cause.COPY,
    Slot.ALLOCATE: Cause.ALLOCATION,
    Slot.FREE: Cause.ALLOCATION,
    Slot.LAUNCH: Cause.LAUNCH_QUEUE,
    Slot.GRAPH_LAUNCH: Cause.LAUNCH_QUEUE,
}
WAITS_AFTER_NS = 1_000_000
"""A call that does not wait by nature counts as waiting when it is open this long."""


def _field(cookie: int, shift: int, bits: int) -> int:
    return cookie >> shift & ((1 << bits) - 1)


class OpenCalls:
    """Open calls of all processes, from the rows of threads."""

    def __init__(self, layout: Layout, symbols: tuple[str, ...]) -> None:
        """Take the symbols of the function table, in the order of its rows."""
        self._step = layout.size("thread") // 8
        self._at = {
            name: layout.offset("thread", name)
            for name in (
                "process_number",
                "hits",
                "open_sp",
                "open_cookie",
                "open_entry_ns",
                "open_place",
            )
        }
        self._symbols = symbols
        self.hits = 0
        """Probe hits of threads that live."""

    def read(self, threads: Chunks, now_ns: int) -> dict[tuple[int, int], dict[Cause, OpenCall]]:
        """Return open calls by (process number, place) and cause."""
        found: dict[tuple[int, int], dict[Cause, OpenCall]] = {}
        self.hits = 0
        for _keys, values in threads:
            words = memoryview(values).cast("Q")
            step = self._step
            self.hits += sum(words[self._at["hits"] // 8 :: step])
            pointers = words[self._at["open_sp"] // 8 :: step].tolist()
            for i, sp in enumerate(pointers):
                if sp:
                    self._add(found, words, values, i, now_ns)
        return found

    def _add(
        self,
        found: dict[tuple[int, int], dict[Cause, OpenCall]],
        words: memoryview,
        values: bytes,
        i: int,
        now_ns: int,
    ) -> None:
        cookie = words[i * self._step + self._at["open_cookie"] // 8]
        entry_ns = words[i * self._step + self._at["open_entry_ns"] // 8]
        slot = _field(cookie, abi.COOKIE_SLOT_SHIFT, abi.COOKIE_SLOT_BITS)
        row = _field(cookie, abi.COOKIE_ROW_SHIFT, abi.COOKIE_ROW_BITS)
        age_ns = max(0, now_ns - entry_ns)
        blocks = _field(cookie, abi.COOKIE_BLOCKS_SHIFT, abi.COOKIE_BLOCKS_BITS)
        cause = CAUSE_OF_SLOT.get(Slot(slot)) if slot < abi.SLOT_COUNT else None
        if cause is None or (not blocks and age_ns < WAITS_AFTER_NS):
            return
        number = int.from_bytes(self._u32(values, i, "process_number"), "little")
        place = int.from_bytes(self._u32(values, i, "open_place"), "little")
        symbol = self._symbols[row - 1] if 0 < row <= len(self._symbols) else ""
        causes = found.setdefault((number, place), {})
        old = causes.get(cause, OpenCall())
        older = age_ns > old.oldest_ns
        causes[cause] = OpenCall(
            calls=old.calls + 1,
            blocked_ns=old.blocked_ns + age_ns,
            oldest_ns=max(age_ns, old.oldest_ns),
            oldest_symbol=symbol if older else old.oldest_symbol,
        )

    def _u32(self, values: bytes, i: int, name: str) -> bytes:
        at = i * self._step * 8 + self._at[name]
        return values[at : at + 4]
