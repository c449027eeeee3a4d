"""Requested memory and failed calls, from their maps."""

from __future__ import annotations

import struct

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Family, Slot
from gpugauge.model.process import Memory
from gpugauge.state.memo import Memo
from gpugauge.state.raw import Chunks

OTHER_CODE = -1
"""Stands for a code that is no CUresult."""
_ERROR_KEY = struct.Struct("<IHHI")
_COUNT = struct.Struct("<Q")
_MEMORY_KEY = struct.Struct("<IHH")
_MEMORY = struct.Struct("<7QII")
_FAMILIES = tuple(Family(number) for number in range(abi.FAMILY_COUNT))


class RequestedMemory:
    """Requested bytes by (process number, place) and family."""

    def __init__(self, layout: Layout) -> None:
        if layout.size("memory") != _MEMORY.size or layout.size("memory_key") != _MEMORY_KEY.size:
            raise AssertionError("struct memory has changed: RequestedMemory must follow")
        self.untracked: set[tuple[int, int]] = set()
        """Where an allocation found no row: the sums are lower bounds."""
        self._memo: Memo[bytes, tuple[int, Memory, int]] = Memo(_row)
        self.failed_bytes: dict[tuple[int, int], int] = {}
        """Size of the last allocation that failed."""

    def read(self, memories: Chunks) -> dict[tuple[int, int], dict[Family, Memory]]:
        """Return memory by (process number, place) and family.

        The peak of several contexts on one device is the sum of their peaks: an upper bound.
        """
        found: dict[tuple[int, int], dict[Family, Memory]] = {}
        self.untracked, self.failed_bytes = set(), {}
        self._memo.turn()
        size = _MEMORY.size
        for keys, values in memories:
            for i, (number, _context, family) in enumerate(_MEMORY_KEY.iter_unpack(keys)):
                if family >= abi.FAMILY_COUNT:
                    continue
                place, memory, untracked = self._memo(values[i * size : (i + 1) * size])
                key = (number, place)
                families = found.setdefault(key, {})
                name = _FAMILIES[family]
                old = families.get(name)
                families[name] = memory if old is None else _sum(old, memory)
                if untracked:
                    self.untracked.add(key)
                if memory.failures:
                    self.failed_bytes[key] = memory.failed_bytes
        return found


def _row(values: bytes) -> tuple[int, Memory, int]:
    """Return place, memory and untracked allocations of a row."""
    requested, peak, allocations, frees, failures, failed, untracked, place, _ = _MEMORY.unpack(
        values
    )
    return place, Memory(requested, peak, allocations, frees, failures, failed), untracked


def _sum(one: Memory, other: Memory) -> Memory:
    return Memory(
        requested_bytes=one.requested_bytes + other.requested_bytes,
        peak_bytes=one.peak_bytes + other.peak_bytes,
        allocations=one.allocations + other.allocations,
        frees=one.frees + other.frees,
        failures=one.failures + other.failures,
        failed_bytes=other.failed_bytes or one.failed_bytes,
    )


def read_errors(
    errors: Chunks, known_codes: frozenset[int]
) -> dict[tuple[int, int], dict[tuple[Slot, int], int]]:
    """Return failed calls by (process number, place), then by (slot, code)."""
    found: dict[tuple[int, int], dict[tuple[Slot, int], int]] = {}
    for keys, values in errors:
        rows = zip(_ERROR_KEY.iter_unpack(keys), _COUNT.iter_unpack(values), strict=True)
        for (number, place, slot, code), (count,) in rows:
            if slot >= abi.SLOT_COUNT:
                continue
            name = (Slot(slot), code if code in known_codes else OTHER_CODE)
            codes = found.setdefault((number, place), {})
            codes[name] = codes.get(name, 0) + count
    return found
