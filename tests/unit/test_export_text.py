"""Numbers and label sets as text: what the library writes; counters that only rise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from gpugauge.export.rising import Rising
from gpugauge.export.text import LabelTexts, number

LABELS = st.tuples(st.sampled_from("abc"), st.text(max_size=3))


@given(st.one_of(st.floats(), st.integers(-(2**70), 2**70), st.integers(0, 10**7)))
def test_numbers_are_the_library_s(value: float) -> None:
    assert number(value) == floatToGoString(value)


@given(st.lists(LABELS, max_size=30))
def test_a_kept_text_is_the_one_a_fresh_writer_gives(asked: list[tuple[str, str]]) -> None:
    names = ("zone", "code")
    kept = LabelTexts(names)
    for labels in asked:
        assert kept(labels) == LabelTexts(names)(labels)
        assert kept(labels).startswith('{code="')


VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=3)


@given(st.lists(st.tuples(VALUES, st.integers(1, 40)), max_size=12))
def test_what_is_shown_never_falls_while_it_is_remembered(renderings) -> None:
    clock = [0.0]
    rising = Rising(60.0, lambda: clock[0])
    shown: dict[str, tuple[float, float]] = {}
    for values, pause in renderings:
        clock[0] += pause
        rising.begin()
        one, many = rising.family("one"), rising.family("many")
        for name, value in values.items():
            now = one.at_least((name,), float(value))
            assert many.all_at_least((name,), (float(value), 5.0)) == (now, 5.0)
            before, at = shown.get(name, (0.0, clock[0]))
            if clock[0] - at <= 60.0:
                assert now >= before
            shown[name] = (now, clock[0])
        rising.end()


def test_what_grew_after_a_fall_is_added() -> None:
    rising = Rising(60.0, lambda: 0.0)
    found = []
    for value in (10.0, 4.0, 7.0):
        rising.begin()
        found.append(rising.family("x").at_least(("a",), value))
        rising.end()
    assert found == [10.0, 10.0, 13.0]


def test_what_was_absent_for_long_is_forgotten() -> None:
    clock = [0.0]
    rising = Rising(60.0, lambda: clock[0])
    for at, values in ((0, {"a": 9.0}), (50, {"b": 1.0}), (111, {"b": 1.0}), (112, {"a": 2.0})):
        clock[0] = float(at)
        rising.begin()
        found = {n: rising.family("x").at_least((n,), v) for n, v in values.items()}
        rising.end()
    assert found == {"a": 2.0}
