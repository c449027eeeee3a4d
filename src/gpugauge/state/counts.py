"""Counters of every process at every place, from the rows of its threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpugauge.ebpf.layout import Layout
from gpugauge.state.lanes import LANE_BYTES, Lanes
from gpugauge.state.raw import Chunks

Key = tuple[int, int]
"""(process number, place)"""
KEY_BYTES = 8
"""Of struct counts_key."""
_Row = tuple[bytes, int, Key | None]
NO_ROW: _Row = (b"", 0, None)


@dataclass(slots=True)
class _Part:
    """Rows of one chunk of a map, as they were when they were last read."""

    keys: bytes
    rows: list[bytes]
    wides: list[int]
    owners: list[Key | None]
    """None: a row whose owner was not written yet, or that is being added to its process."""
    sums: dict[Key, int] = field(default_factory=dict)


class CountsTable:
    """Sums of all rows, by process number and place; never goes back.

    A row that did not change since the tick before costs a comparison.
    """

    def __init__(self, layout: Layout) -> None:
        self._row_bytes = layout.size("counts_row")
        self._lanes_at = layout.offset("counts_row", "counts")
        self._number_at = layout.offset("counts_row", "process_number")
        self._merging_at = layout.offset("counts_row", "merging")
        self.lanes = Lanes(layout.size("counts") // LANE_BYTES)
        self._process_parts: list[_Part] = []
        self._thread_parts: list[_Part] = []
        self.totals: dict[Key, int] = {}

    def update(self, process_rows: Chunks, thread_rows: Chunks) -> None:
        """Take in one read of both maps."""
        self._process_parts = self._read(process_rows, self._process_parts)
        self._thread_parts = self._read(thread_rows, self._thread_parts)
        sums: dict[Key, int] = {}
        for part in (*self._process_parts, *self._thread_parts):
            for key, wide in part.sums.items():
                sums[key] = sums.get(key, 0) + wide
        totals = self.totals
        for key, wide in sums.items():
            before = totals.get(key, 0)
            if wide != before:
                totals[key] = self.lanes.rise(before, wide)

    def forget(self, process_number: int) -> None:
        """Drop a process that was reaped."""
        for key in [each for each in self.totals if each[0] == process_number]:
            del self.totals[key]

    def of(self, process_number: int) -> Mapping[int, int]:
        """Return the wide sums of a process, by place."""
        return {
            place: wide for (number, place), wide in self.totals.items() if number == process_number
        }

    def by_process(self) -> dict[int, dict[int, int]]:
        """Return all wide sums: process number -> place -> sum."""
        found: dict[int, dict[int, int]] = {}
        for (number, place), wide in self.totals.items():
            found.setdefault(number, {})[place] = wide
        return found

    def _read(self, chunks: Chunks, parts: list[_Part]) -> list[_Part]:
        """Return the parts of a map, changed where its rows did."""
        size = self._row_bytes
        known: dict[bytes, _Row] | None = None
        found = []
        for at, (keys, values) in enumerate(chunks):
            rows = [values[start : start + size] for start in range(0, len(values), size)]
            part = parts[at] if at < len(parts) else None
            if part is None or part.keys != keys:
                if known is None:
                    known = _by_name(parts)
                part = _moved(keys, rows, known)
            for i, (row, before) in enumerate(zip(rows, part.rows, strict=True)):
                if row != before:
                    self._replace(part, i, row)
            part.rows = rows
            found.append(part)
        return found

    def _replace(self, part: _Part, i: int, row: bytes) -> None:
        owner, sums = part.owners[i], part.sums
        if owner is not None:
            sums[owner] -= part.wides[i]
        number = int.from_bytes(row[self._number_at : self._number_at + 4], "little")
        merging = int.from_bytes(row[self._merging_at : self._merging_at + 4], "little")
        if not number or merging:
            part.owners[i], part.wides[i] = None, 0
            return
        owner = (
            number,
            int.from_bytes(part.keys[i * KEY_BYTES + 4 : (i + 1) * KEY_BYTES], "little"),
        )
        end = self._lanes_at + self.lanes.size_bytes
        wide = int.from_bytes(row[self._lanes_at : end], "little")
        sums[owner] = sums.get(owner, 0) + wide
        part.owners[i], part.wides[i] = owner, wide


def _by_name(parts: list[_Part]) -> dict[bytes, _Row]:
    """Return all rows by key: needed where a new thread moved the others."""
    return {
        part.keys[i * KEY_BYTES : (i + 1) * KEY_BYTES]: each
        for part in parts
        for i, each in enumerate(zip(part.rows, part.wides, part.owners, strict=True))
    }


def _moved(keys: bytes, rows: list[bytes], known: dict[bytes, _Row]) -> _Part:
    """Return a part for a chunk whose keys changed, with what is known of its rows."""
    part = _Part(keys, [], [], [])
    for i in range(len(rows)):
        row, wide, owner = known.get(keys[i * KEY_BYTES : (i + 1) * KEY_BYTES], NO_ROW)
        part.rows.append(row)
        part.wides.append(wide)
        part.owners.append(owner)
        if owner is not None:
            part.sums[owner] = part.sums.get(owner, 0) + wide
    return part
