"""Cleaning of foreign names."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.discovery.names import NAME_LIMIT, clean, for_html


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("train-7", "train-7"),
        ("größe 2", "größe 2"),
        ("\x1b[2Jgone", "?[2Jgone"),
        ("\x9b31mred", "?31mred"),
        ("a\nb\tc\0", "a?b?c?"),
        ("user\u202etxt.exe", "user?txt.exe"),
        ("line\u2028two", "line?two"),
        (b"raw\xff\xfe", "raw??"),
        (b"", ""),
        ("\udcff", "?"),
    ],
)
def test_what_steers_a_terminal_is_taken_out(name: str | bytes, shown: str) -> None:
    assert clean(name) == shown


def test_long_names_are_cut_and_say_so() -> None:
    assert clean("x" * NAME_LIMIT) == "x" * NAME_LIMIT
    assert clean("x" * (NAME_LIMIT + 1)) == "x" * (NAME_LIMIT - 1) + "…"
    assert clean("é".encode() * 1009) == "é" * (NAME_LIMIT - 1) + "…"


def test_html_cannot_be_left() -> None:
    assert for_html("\"><script>'") == "&quot;&gt;&lt;script&gt;&#x27;"


@given(st.one_of(st.text(max_size=300), st.binary(max_size=900)), st.integers(0, 200))
def test_any_name_becomes_one_visible_line(name: str | bytes, limit: int) -> None:
    shown = clean(name, limit)
    assert len(shown) <= limit
    assert all(unicodedata.category(each)[0] not in "C" for each in shown)
    assert len(shown.splitlines()) <= 1
    assert clean(shown, limit) == shown
    shown.encode("utf-8")
