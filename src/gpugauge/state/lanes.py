"""Rows of u64 lanes, summed many at a time.

A row of `struct counts` is read as one wide integer. Adding two such integers
adds all lanes at once, as long as no lane reaches 2^64: counters of calls,
bytes and nanoseconds do not in the life of a node. This is some twenty times
faster than adding lanes one by one, and needs no numpy (12 MB).
"""

from __future__ import annotations

import operator
import struct

from gpugauge.state.memo import Memo

LANE_BYTES = 8
LANE_BITS = 64


class Lanes:
    """Conversions between bytes, wide integers and tuples, for one number of lanes."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.size_bytes = count * LANE_BYTES
        self._struct = struct.Struct(f"<{count}Q")
        self._high = sum(1 << (LANE_BITS * (lane + 1) - 1) for lane in range(count))
        """The highest bit of each lane."""
        self._values: Memo[int, tuple[int, ...]] = Memo(self._unpack)

    def turn(self) -> None:
        """Begin a tick."""
        self._values.turn()

    def wide(self, data: bytes) -> int:
        """Return a row as a wide integer."""
        return int.from_bytes(data, "little")

    def values(self, wide: int) -> tuple[int, ...]:
        """Return the lanes of a wide integer: one tuple for all who ask within a tick."""
        return self._values(wide)

    def _unpack(self, wide: int) -> tuple[int, ...]:
        return self._struct.unpack(wide.to_bytes(self.size_bytes, "little"))

    def join(self, values: tuple[int, ...]) -> int:
        """Return the wide integer of lanes."""
        return int.from_bytes(self._struct.pack(*values), "little")

    def rise(self, old: int, new: int) -> int:
        """Return `new` with no lane below that of `old`.

        A read that meets a thread as it ends may miss it once; a published
        counter must not go back for it.
        """
        if old == new or not old:
            return new
        # With its highest bit set, a lane that has not fallen keeps it when the old one is
        # taken off, and borrows nothing from the next.
        high = self._high
        if not (old | new) & high and ((new | high) - old) & high == high:
            return new
        before, after = self.values(old), self.values(new)
        if any(map(operator.gt, before, after)):
            return self.join(tuple(map(max, before, after)))
        return new
