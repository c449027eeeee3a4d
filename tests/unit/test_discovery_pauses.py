"""What is paused is not attached, and its users are told why."""

from __future__ import annotations

from gpugauge.discovery.pauses import CHECKPOINT, OFF, Pauses
from gpugauge.model.library import FileId

ONE, TWO = FileId(8, 1, 71), FileId(8, 1, 73)


def test_nothing_is_paused_at_first() -> None:
    assert Pauses().apply([ONE, TWO], {}, 1) == ([ONE, TWO], {})


def test_off_is_everything_and_keeps_other_reasons() -> None:
    pauses = Pauses()
    pauses.off = True
    assert pauses.apply([ONE], {TWO: "too many"}, 1) == ([], {ONE: OFF, TWO: "too many"})


def test_a_checkpoint_lasts_until_its_time_or_its_end() -> None:
    pauses = Pauses()
    pauses.begin([ONE], 100)
    pauses.begin([ONE], 50)  # the later time wins
    assert pauses.apply([ONE, TWO], {}, 99) == ([TWO], {ONE: CHECKPOINT})
    assert pauses.apply([ONE, TWO], {}, 100) == ([ONE, TWO], {})
    pauses.begin([TWO], 200)
    pauses.end([TWO])
    assert pauses.apply([TWO], {}, 101) == ([TWO], {})
