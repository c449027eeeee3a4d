"""History: sums are exact, gauges are the newest, and the budget of bytes holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.diagnosis.history import COARSE_SECONDS, FINE_SECONDS, History, Rows, Track


def rows_of(*rows: list[float], step: float = 0.95) -> Rows:
    made = Rows(3, 2, step)
    for row in rows:
        made.add(row)
    return made


def test_a_window_sums_the_newest_rows_and_takes_the_newest_gauge() -> None:
    rows = rows_of([1, 2, 10], [1, 3, 20], [1, 5, 30])
    assert rows.window(2) == [2, 8, 30]
    assert rows.window(99) == [3, 10, 30]
    assert rows.window(1, skip_seconds=1) == [1, 3, 20]
    assert rows_of().window(1) is None


def test_points_that_follow_fast_are_added_up() -> None:
    rows = rows_of([0.5, 2, 10], [0.5, 3, 20], [0.5, 7, 30])
    assert len(rows) == 1
    assert rows.window(1) == [1.0, 5, 20]


@given(st.lists(st.tuples(st.floats(0.1, 30), st.integers(0, 10_000)), min_size=1, max_size=60))
def test_nothing_is_lost_between_fine_rows(points: list[tuple[float, int]]) -> None:
    rows = Rows(2, 2, 0.95)
    for seconds, count in points:
        rows.add([seconds, count])
    pending = rows._pending or [0.0, 0.0]
    window = rows.window(1e9) or [0.0, 0.0]
    assert window[1] + pending[1] == pytest.approx(sum(count for _, count in points), rel=1e-5)


def test_ten_minutes_are_kept_fine_and_an_hour_coarse() -> None:
    track = Track(2, 2)
    for _ in range(5000):
        track.add([1.0, 1.0])
        track.fine.trim(FINE_SECONDS)
        track.coarse.trim(COARSE_SECONDS)
    assert FINE_SECONDS <= track.fine.seconds <= FINE_SECONDS * 1.13
    assert COARSE_SECONDS <= track.coarse.seconds <= COARSE_SECONDS * 1.13
    assert track.coarse.window(COARSE_SECONDS) is not None


@pytest.mark.parametrize("limit_bytes", [1_000_003, 4_000_037])
def test_the_budget_of_bytes_holds_and_the_newest_points_stay(limit_bytes: int) -> None:
    history = History(limit_bytes)
    tracks = [history.track(n, 31, 26) for n in range(101)]
    for _ in range(1200):
        for track in tracks:
            assert track is not None
            track.add([1.0] * 31)
        history.trim()
    assert history.bytes <= limit_bytes * 1.25
    assert all(track is not None and track.fine.seconds >= 59 for track in tracks)


def test_tracks_beyond_the_budget_are_refused_and_counted() -> None:
    history = History(1024 * 1024)
    made = [history.track(n, 31, 26) for n in range(1000)]
    assert made[0] is not None
    assert made[-1] is None
    assert history.refused > 0
    random.Random(1).shuffle(made)
    history.forget(0)
