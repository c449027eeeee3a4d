"""Sums of rows, whatever changes between two reads: equal to adding all rows anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpugauge.ebpf import objects_file
from gpugauge.ebpf.layout import Layout
from gpugauge.ebpf.object import BpfObject
from gpugauge.state.counts import CountsTable
from gpugauge.state.lanes import Lanes
from gpugauge.state.memo import LanesMemo, Memo
from gpugauge.state.raw import Chunks

LAYOUT = Layout(BpfObject(objects_file.read("gpu")).btf)
ROW_BYTES = LAYOUT.size("counts_row")
CHUNK_ROWS = 3

rows = st.dictionaries(
    st.integers(1, 9),  # thread
    st.tuples(
        st.integers(0, 3),  # process number; 0: not written yet
        st.integers(0, 1),  # place
        st.integers(0, 1 << 40),  # calls
        st.sampled_from([0, 0, 0, 1]),  # merging
    ),
    max_size=9,
)


def chunks(table: dict[int, tuple[int, int, int, int]], order: list[int]) -> Chunks:
    """Return the table as it is read from a map, in some order."""
    names = sorted(table, key=lambda tid: order[tid])
    parts = []
    for start in range(0, len(names), CHUNK_ROWS):
        keys, values = b"", b""
        for tid in names[start : start + CHUNK_ROWS]:
            number, place, calls, merging = table[tid]
            keys += tid.to_bytes(4, "little") + place.to_bytes(4, "little")
            row = bytearray(ROW_BYTES)
            for path, value, size in (
                ("process_number", number, 4),
                ("merging", merging, 4),
                ("counts.slots[0].calls", calls, 8),
            ):
                at = LAYOUT.offset("counts_row", path)
                row[at : at + size] = value.to_bytes(size, "little")
            values += bytes(row)
        parts.append((keys, values))
    return tuple(parts)


def plain(table: dict[int, tuple[int, int, int, int]]) -> dict[tuple[int, int], int]:
    """Return calls by (process number, place), added up row by row."""
    found: dict[tuple[int, int], int] = {}
    for number, place, calls, merging in table.values():
        if number and not merging:
            found[number, place] = found.get((number, place), 0) + calls
    return found


@given(st.lists(st.tuples(rows, rows, st.permutations(range(10))), min_size=1, max_size=5))
def test_totals_are_the_highest_sums_so_far(reads) -> None:
    counts = CountsTable(LAYOUT)
    highest: dict[tuple[int, int], int] = {}
    for processes, threads, order in reads:
        counts.update(chunks(processes, order), chunks(threads, order))
        sums = plain(processes)
        for key, calls in plain(threads).items():
            sums[key] = sums.get(key, 0) + calls
        for key, calls in sums.items():
            highest[key] = max(highest.get(key, 0), calls)
        found = {key: counts.lanes.values(wide)[0] for key, wide in counts.totals.items()}
        assert found == {key: calls for key, calls in highest.items() if key in found}
        assert all(not calls for key, calls in highest.items() if key not in found)


def test_a_memo_remembers_this_tick_and_the_last() -> None:
    made: list[int] = []

    def make(key: int) -> int:
        made.append(key)
        return -key

    memo = Memo(make)
    assert [memo(1), memo(2), memo(1)] == [-1, -2, -1]
    memo.turn()
    assert memo(1) == -1
    memo.turn()
    assert [memo(1), memo(2)] == [-1, -2]
    assert made == [1, 2, 2]


def test_a_memo_of_lanes_goes_by_the_tuple_and_the_number() -> None:
    made: list[tuple[int, int]] = []

    def make(lanes: tuple[int, ...], more: int) -> int:
        made.append((lanes[0], more))
        return lanes[0] + more

    memo = LanesMemo(make)
    for value in range(200):  # tuples that are gone must not be taken for new ones
        assert memo((value, 1), 5) == value + 5
        lanes = (value, 2)
        assert [memo(lanes), memo(lanes, 7), memo(lanes)] == [value, value + 7, value]
        if value % 3 == 0:
            memo.turn()
    assert len(made) == 600


lane = st.one_of(st.integers(0, 5), st.integers(0, (1 << 64) - 1), st.just(1 << 63))


@given(st.lists(st.tuples(lane, lane), min_size=1, max_size=6))
def test_no_lane_falls_whatever_its_neighbours_do(pairs) -> None:
    lanes = Lanes(len(pairs))
    old, new = (lanes.join(values) for values in zip(*pairs, strict=True))
    risen = lanes.values(lanes.rise(old, new))
    assert risen == (tuple(map(max, *zip(*pairs, strict=True))) if old else lanes.values(new))
