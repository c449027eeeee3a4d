"""BTF: types are read, and whatever is wrong is a ForeignDataError within bounds."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec import btf, linux_btf
from gpugauge.codec.btf import Btf, Kind
from gpugauge.ebpf.layout import Layout
from gpugauge.errors import ForeignDataError


class Writer:
    """Writes BTF, type by type; ids begin at 1."""

    def __init__(self) -> None:
        self.types = b""
        self.strings = b"\0"

    def name(self, text: str) -> int:
        if not text:
            return 0
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def add(
        self, kind: int, name: str, count: int, size_or_type: int, words: tuple[int, ...] = ()
    ) -> None:
        head = (self.name(name), kind << 24 | count, size_or_type)
        self.types += struct.pack(f"<III{len(words)}I", *head, *words)

    def bytes(self) -> bytes:
        head = (btf.MAGIC, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings))
        return struct.pack("<HBBIIIII", *head) + self.types + self.strings


def make() -> bytes:
    out = Writer()
    out.add(Kind.INT, "unsigned long long", 0, 8, (64,))  # 1
    out.add(Kind.TYPEDEF, "__u64", 0, 1)  # 2
    out.add(Kind.INT, "unsigned char", 0, 1, (8,))  # 3
    out.add(Kind.ARRAY, "", 0, 0, (2, 1, 5))  # 4: __u64[5]
    out.add(  # 5: flat, 48 bytes
        Kind.STRUCT, "flat", 2, 48, (out.name("first"), 2, 0, out.name("rest"), 4, 64)
    )
    out.add(Kind.ARRAY, "", 0, 0, (5, 1, 3))  # 6: struct flat[3]
    out.add(  # 7: mixed
        Kind.STRUCT, "mixed", 2, 152, (out.name("byte"), 3, 0, out.name("flats"), 6, 64)
    )
    out.add(Kind.PROTOTYPE, "", 0, 0)  # 8
    out.add(Kind.FUNCTION, "bpf_session_is_return", 1, 8)  # 9
    out.add(Kind.POINTER, "", 0, 7)  # 10
    out.add(Kind.TYPEDEF, "loop_a", 0, 12)  # 11 and 12 name each other
    out.add(Kind.TYPEDEF, "loop_b", 0, 11)  # 12
    out.add(Kind.FUNCTION, "bpf_session_cookie", 1, 8)  # 13
    out.add(Kind.ARRAY, "", 0, 0, (14, 1, 2))  # 14: an array of itself
    out.add(Kind.STRUCT, "itself", 1, 8, (out.name("me"), 15, 0))  # 15
    return out.bytes()


def everything(data: bytes) -> None:
    """Ask for all there is."""
    found = Btf(data)
    for each in found.types:
        for ask in (found.size, found.resolve, found.members):
            try:
                ask(each.id)
            except ForeignDataError:
                continue
    layout = Layout(found)
    for name in ("flat", "mixed", "itself"):
        try:
            layout.size(name)
            layout.offset(name, "flats[1].rest[2]")
            layout.struct(name)
        except (ForeignDataError, struct.error):
            continue


def test_types_and_sizes() -> None:
    found = Btf(make())
    assert found.size(2) == 8
    assert found.size(4) == 40
    assert found.size(6) == 144
    assert found.size(10) == 8
    flat = found.find("flat", Kind.STRUCT)
    assert flat is not None
    assert [(each.name, each.offset_bits) for each in found.members(flat.id)] == [
        ("first", 0),
        ("rest", 64),
    ]
    assert found.find("flat", Kind.UNION) is None
    assert found.resolve(2).name == "unsigned long long"


@pytest.mark.parametrize("type_id", [11, 12, 14, 8, 0, 99, -1])
def test_types_without_end_or_size_are_told(type_id: int) -> None:
    with pytest.raises(ForeignDataError):
        Btf(make()).size(type_id)


def test_layouts() -> None:
    layout = Layout(Btf(make()))
    assert layout.size("mixed") == 152
    assert layout.offset("mixed", "flats[2].rest[4]") == 8 + 2 * 48 + 8 + 32
    assert layout.offset("mixed", "") == 0
    assert layout.struct("flat").size == 48
    assert layout.struct("flat").unpack(struct.pack("<6Q", *range(6))) == tuple(range(6))
    for path in ("flats[3]", "byte.more", "flats..rest", "flats[1]rest]", "[0]", "flats[x]"):
        with pytest.raises(ForeignDataError):
            layout.offset("mixed", path)
    with pytest.raises(ForeignDataError):
        layout.struct("mixed")


def test_function_ids_are_positions_among_the_types() -> None:
    names = ["bpf_session_cookie", "bpf_session_is_return", "bpf_nothing", "flat"]
    assert linux_btf.function_ids(make(), names) == {
        "bpf_session_cookie": 13,
        "bpf_session_is_return": 9,
    }
    assert linux_btf.function_ids(make(), []) == {}


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\0\0"),
        (2, b"\2"),
        (4, struct.pack("<I", 8)),  # a header too short
        (12, struct.pack("<I", 1 << 30)),  # types without end
        (20, struct.pack("<I", 1 << 30)),  # strings without end
        (24, struct.pack("<I", 1 << 20)),  # a name outside
        (28, struct.pack("<I", 31 << 24)),  # a kind that is not known
        (28, struct.pack("<I", Kind.STRUCT << 24 | 0xFFFF)),  # members without end
    ],
)
def test_what_is_off_is_told(at: int, value: bytes) -> None:
    data = bytearray(make())
    data[at : at + len(value)] = value
    with pytest.raises(ForeignDataError):
        everything(bytes(data))


@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(make()) - 1), st.binary(min_size=1, max_size=6)), max_size=8
    ),
    size=st.integers(0, len(make())),
)
def test_any_change_is_read_or_told(changes: list[tuple[int, bytes]], size: int) -> None:
    data = bytearray(make())
    for at, value in changes:
        data[at : at + len(value)] = value
    for cut in (len(data), size):
        for ask in (everything, lambda each: linux_btf.function_ids(each, ["bpf_session_cookie"])):
            try:
                ask(bytes(data[:cut]))
            except ForeignDataError:
                continue


def test_members_of_linux_structs_are_found_as_the_whole_parser_finds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(btf, "MAX_TYPES", 1 << 20)  # the limit is for objects, not for Linux
    data = Path("/sys/kernel/btf/vmlinux").read_bytes()
    whole = btf.Btf(data)
    for struct_name, member_name in (("task_struct", "signal"), ("signal_struct", "live")):
        found = whole.find(struct_name, btf.Kind.STRUCT)
        assert found is not None
        member = next(each for each in whole.members(found.id) if each.name == member_name)
        offset = linux_btf.member_offset(data, struct_name, member_name)
        assert offset == member.offset_bits // 8
    assert linux_btf.member_offset(data, "task_struct", "no_such_member_31") is None
    assert linux_btf.member_offset(data, "no_such_struct_31", "signal") is None


@given(position=st.integers(0, 4000), value=st.integers(0, 255))
def test_damaged_types_of_linux_give_an_error_or_an_answer(position: int, value: int) -> None:
    data = bytearray(make())
    data[position % len(data)] = value
    with contextlib.suppress(ForeignDataError):
        linux_btf.member_offset(bytes(data), "counts", "first")
