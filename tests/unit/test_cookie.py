"""The cookie: what Python packs is what the programs take apart."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.model import abi
from gpugauge.model.abi import Action, Family, Size, Slot, StreamDefault
from gpugauge.model.function import Function
from gpugauge.vendors import CUDA
from gpugauge.vendors.cookie import FIELDS, Cookie, CookieError, pack, unpack

ARG = st.integers(0, 15)
FUNCTIONS = st.builds(
    Function,
    symbol=st.just("cuAny"),
    slot=st.sampled_from(Slot),
    action=st.sampled_from(Action),
    size=st.sampled_from(Size),
    size_arg=ARG,
    size_log2=st.integers(0, 3),
    stream_arg=ARG,
    stream_default=st.sampled_from(StreamDefault),
    context_arg=ARG,
    pointer_arg=ARG,
    family=st.sampled_from([family for family in Family if family < abi.FAMILY_COUNT]),
    submits=st.booleans(),
    blocks=st.booleans(),
    returns=st.booleans(),
)
ROW_NUMBERS = st.integers(1, abi.LIMIT_ROWS - 1)
LINKS = st.integers(0, abi.LIMIT_LINKS - 1)


def expected(function: Function, row: int, link: int) -> Cookie:
    values = {
        f.name: getattr(function, f.name) for f in fields(Cookie) if hasattr(function, f.name)
    }
    return Cookie(row=row, link=link, **values)


@given(FUNCTIONS, ROW_NUMBERS, LINKS)
def test_a_round_trip_loses_nothing(function: Function, row: int, link: int) -> None:
    cookie = pack(function, row, link)
    assert 0 < cookie < 1 << 64
    assert unpack(cookie) == expected(function, row, link)


@given(FUNCTIONS, ROW_NUMBERS, LINKS, FUNCTIONS, ROW_NUMBERS, LINKS)
def test_different_rows_have_different_cookies(
    one: Function, row: int, link: int, other: Function, other_row: int, other_link: int
) -> None:
    same = pack(one, row, link) == pack(other, other_row, other_link)
    assert same == (expected(one, row, link) == expected(other, other_row, other_link))


@given(st.integers(0, (1 << 64) - 1))
def test_any_number_is_a_cookie_or_refused(number: int) -> None:
    try:
        cookie = unpack(number)
    except CookieError:
        return
    function = Function(
        symbol="cuAny",
        **{
            f.name: getattr(cookie, f.name) for f in fields(Cookie) if f.name not in ("row", "link")
        },
    )
    if cookie.row:
        assert pack(function, cookie.row, cookie.link) == number


def test_the_bits_are_those_of_the_header() -> None:
    function = Function(symbol="cuAny", slot=Slot.LAUNCH, returns=False)
    assert pack(function, 1, 0) == 1
    assert pack(replace(function, slot=Slot.SET), 1, 0) == 1 | 10 << 10
    assert pack(replace(function, action=Action.HOST_REGISTER), 1, 0) == 1 | 47 << 15
    assert pack(replace(function, stream_arg=9), 1, 0) == 1 | 9 << 31
    assert pack(replace(function, returns=True), 1, 0) == 1 | 1 << 50
    assert pack(function, 1023, 63) == 1023 | 63 << 58


def test_fields_do_not_overlap_and_name_every_member_of_the_row() -> None:
    taken = 0
    for shift, bits in FIELDS.values():
        mask = ((1 << bits) - 1) << shift
        assert not taken & mask
        taken |= mask
    assert set(FIELDS) == {f.name for f in fields(Cookie)}
    programmed = {f.name for f in fields(Function)} - {"symbol", "core", "hot"}
    assert set(FIELDS) == programmed | {"row", "link"}


@pytest.mark.parametrize(
    ("change", "row", "link", "names"),
    [
        ({"size_arg": 16}, 1, 0, "size_arg 16"),
        ({"stream_arg": 16}, 1, 0, "stream_arg 16"),
        ({"context_arg": -1}, 1, 0, "context_arg -1"),
        ({"pointer_arg": 17}, 1, 0, "pointer_arg 17"),
        ({"size_log2": 4}, 1, 0, "size_log2 4"),
        ({"family": Family.RANGE}, 1, 0, "family 8"),
        ({}, 1024, 0, "row 1024"),
        ({}, 0, 0, "counted from 1"),
        ({}, -1, 0, "row -1"),
        ({}, 1, 64, "link 64"),
        ({}, 1, -1, "link -1"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    change: dict[str, int], row: int, link: int, names: str
) -> None:
    function = replace(Function(symbol="cuAny", slot=Slot.LAUNCH), **change)
    with pytest.raises(CookieError, match=names):
        pack(function, row, link)


@pytest.mark.parametrize("number", [-1, 1 << 64, 1 << 51, 1 << 57, 31 << 10, 63 << 15, 3 << 35])
def test_what_is_no_cookie_is_refused(number: int) -> None:
    with pytest.raises(CookieError, match="no cookie"):
        unpack(number)


def test_every_row_of_the_table_fits() -> None:
    cookies = {pack(function, row, 63) for row, function in CUDA.numbered()}
    assert len(cookies) == len(CUDA.functions)
    for cookie in cookies:
        assert CUDA.function(unpack(cookie).row).slot is unpack(cookie).slot
