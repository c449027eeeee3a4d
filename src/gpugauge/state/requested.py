"""Requested memory and failed calls, from their maps."""

from __future__ import annotations

import struct

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Family, Slot
from gpugauge.model.process import Memory
from gpugauge.state.raw import Chunks

OTHER_CODE = -1
"""Stands for a code that is no CUresult."""
_ERROR_KEY = struct.Struct("<IHHI")
_COUNT = struct.Struct("<Q")
_MEMORY_KEY = struct.Struct("<IHH")
_MEMORY = struct.Struct("<7QII")


class RequestedMemory:
    """Requested bytes by (process number, place) and family."""

    def __init__(self, layout: Layout) -> None:
        if layout.size("memory") != _MEMORY.size or layout.size("memory_key") != _MEMORY_KEY.size:
            raise AssertionError("struct memory has changed: RequestedMemory must follow")
        self.untracked: set[tuple[int, int]] = set()
        """Where an allocation found no row: the sums are lower bounds."""
        self.failed_bytes: dict[tuple[int, int], int] = {}
        """Size of the last allocation that failed."""

    def read(self, memories: Chunks) -> dict[tuple[int, int], dict[Family, Memory]]:
        """Return memory by (process number, place) and family.

        The peak of several contexts on one device is the sum of their peaks: an upper bound.
        """
        found: dict[tuple[int, int], dict[Family, Memory]] = {}
        self.untracked, self.failed_bytes = set(), {}
        for keys, values in memories:
            rows = zip(_MEMORY_KEY.iter_unpack(keys), _MEMORY.iter_unpack(values), strict=True)
            for (number, _context, family), row in rows:
                requested, peak, allocations, frees, failures, failed, untracked, place, _ = row
                if family >= abi.FAMILY_COUNT:
                    continue
                key = (number, place)
                families = found.setdefault(key, {})
                old = families.get(Family(family), Memory())
                families[Family(family)] = Memory(
                    requested_bytes=old.requested_bytes + requested,
                    peak_bytes=old.peak_bytes + peak,
                    allocations=old.allocations + allocations,
                    frees=old.frees + frees,
                    failures=old.failures + failures,
                    failed_bytes=failed or old.failed_bytes,
                )
                if untracked:
                    self.untracked.add(key)
                if failures:
                    self.failed_bytes[key] = failed
        return found


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
