"""Counters of every process at every place, from the rows of its threads."""

from __future__ import annotations

from collections.abc import Mapping

from gpugauge.ebpf.layout import Layout
from gpugauge.state.lanes import LANE_BYTES, Lanes
from gpugauge.state.raw import Chunks

Key = tuple[int, int]
"""(process number, place)"""


class CountsTable:
    """Sums of all rows, by process number and place; never goes back.

    Rows that did not change since the tick before are not converted again.
    """

    def __init__(self, layout: Layout) -> None:
        self._row_bytes = layout.size("counts_row")
        self._lanes_at = layout.offset("counts_row", "counts")
        self._number_at = layout.offset("counts_row", "process_number")
        self._merging_at = layout.offset("counts_row", "merging")
        self.lanes = Lanes(layout.size("counts") // LANE_BYTES)
        self._rows: dict[bytes, tuple[bytes, int]] = {}
        self.totals: dict[Key, int] = {}

    def update(self, process_rows: Chunks, thread_rows: Chunks) -> None:
        """Take in one read of both maps."""
        sums: dict[Key, int] = {}
        for keys, values in process_rows:
            self._add(sums, keys, values, threads=None)
        rows: dict[bytes, tuple[bytes, int]] = {}
        for keys, values in thread_rows:
            self._add(sums, keys, values, threads=rows)
        self._rows = rows
        totals = self.totals
        for key, wide in sums.items():
            totals[key] = self.lanes.rise(totals.get(key, 0), wide)

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

    def _add(
        self,
        sums: dict[Key, int],
        keys: bytes,
        values: bytes,
        threads: dict[bytes, tuple[bytes, int]] | None,
    ) -> None:
        size, at = self._row_bytes, self._lanes_at
        step = size // 4
        words = memoryview(values).cast("I")
        numbers = words[self._number_at // 4 :: step].tolist()
        merging = words[self._merging_at // 4 :: step].tolist()
        places = memoryview(keys).cast("I")[1::2].tolist()
        for i, number in enumerate(numbers):
            # A row whose owner was not written yet, or that is being added to its process.
            if not number or merging[i]:
                continue
            row = values[i * size + at : (i + 1) * size]
            if threads is None:
                wide = int.from_bytes(row, "little")
            else:
                name = keys[i * 8 : i * 8 + 8]
                known = self._rows.get(name)
                if known is None or known[0] != row:
                    known = (row, int.from_bytes(row, "little"))
                threads[name] = known
                wide = known[1]
            key = (number, places[i])
            sums[key] = sums.get(key, 0) + wide
