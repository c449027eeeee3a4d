"""ELF files: what is right is read, and whatever is wrong is a ForeignDataError within bounds."""

from __future__ import annotations

import _ctypes
import mmap
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec import elf
from gpugauge.codec.elf import Elf
from gpugauge.errors import ForeignDataError

NAMES = b"\0cuInit\0cuLaunchKernel\0libcuda.so.1\0.dynsym\0.dynstr\0.shstrtab\0.text\0.rel.text\0"


def make() -> bytearray:
    """A shared library of 0x1000 bytes with two functions, a soname, a build id, relocations."""

    def name(text: str) -> int:
        return NAMES.index(b"\0" + text.encode() + b"\0") + 1

    out = bytearray(0x1000)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    struct.pack_into(
        "<16sHHIQQQIHHHHHH", out, 0, ident, 3, 62, 1, 0, 64, 0x800, 0, 64, 56, 3, 64, 6, 3
    )
    load = (1, 5, 0, 0x10000, 0, 0x1000, 0x1000, 4096)
    dynamic = (2, 6, 0x300, 0x10300, 0, 48, 48, 8)
    note = (4, 4, 0x380, 0x10380, 0, 36, 36, 4)
    for index, row in enumerate((load, dynamic, note)):
        struct.pack_into("<IIQQQQQQ", out, 64 + 56 * index, *row)
    out[0x200 : 0x200 + len(NAMES)] = NAMES
    struct.pack_into("<qQqQqQ", out, 0x300, 5, 0x10200, 10, len(NAMES), 14, name("libcuda.so.1"))
    struct.pack_into("<III4s20s", out, 0x380, 4, 20, 3, b"GNU\0", bytes(range(20)))
    for index, (text, value) in enumerate((("cuInit", 0x10600), ("cuLaunchKernel", 0x10610)), 1):
        struct.pack_into("<IBBHQQ", out, 0x400 + 24 * index, name(text), 0x12, 0, 4, value, 16)
    struct.pack_into("<QQQQ", out, 0x500, 0x10600, 1 << 32 | 7, 0x10610, 2 << 32 | 8)
    sections = (
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (name(".dynsym"), 11, 2, 0x10400, 0x400, 72, 2, 1, 8, 24),
        (name(".dynstr"), 3, 2, 0x10200, 0x200, len(NAMES), 0, 0, 1, 0),
        (name(".shstrtab"), 3, 0, 0, 0x200, len(NAMES), 0, 0, 1, 0),
        (name(".text"), 1, 6, 0x10600, 0x600, 32, 0, 0, 16, 0),
        (name(".rel.text"), 9, 0, 0, 0x500, 32, 1, 4, 8, 16),
    )
    for index, row in enumerate(sections):
        struct.pack_into("<IIQQQQIIQQ", out, 0x800 + 64 * index, *row)
    return out


def everything(data: elf.Buffer) -> None:
    """Ask for all there is."""
    found = Elf(data)
    for section in found.sections:
        if section.size < 1 << 16:
            found.data(section)
        if section.type == elf.SECTION_REL:
            list(found.relocations(section))
    for kind in (elf.SECTION_SYMTAB, elf.SECTION_DYNSYM):
        for symbol in found.symbols(kind)[:100]:
            offset = found.file_offset(symbol.value)
            if offset is not None:
                found.read(offset, 1)
    found.soname()
    found.build_id()


def test_a_library_is_read() -> None:
    found = Elf(bytes(make()))
    assert (found.machine, found.type) == (elf.MACHINE_X86_64, elf.TYPE_SHARED)
    assert [each.name for each in found.sections][1:3] == [".dynsym", ".dynstr"]
    assert [(each.name, each.value) for each in found.symbols(elf.SECTION_DYNSYM)] == [
        ("", 0),
        ("cuInit", 0x10600),
        ("cuLaunchKernel", 0x10610),
    ]
    assert found.symbols(elf.SECTION_SYMTAB) == ()
    assert found.file_offset(0x10610) == 0x610
    assert found.file_offset(0x11000) is None
    assert found.file_offset(0) is None
    assert found.soname() == "libcuda.so.1"
    assert found.build_id() == bytes(range(20)).hex()
    section = found.section(".rel.text")
    assert section is not None
    assert list(found.relocations(section)) == [
        elf.Relocation(0x10600, 7, 1),
        elf.Relocation(0x10610, 8, 2),
    ]
    assert found.section(".nothing") is None


def test_a_real_library_is_read_through_a_mapping() -> None:
    path = Path(_ctypes.__file__)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
        found = Elf(view)
        exported = {each.name: each for each in found.symbols(elf.SECTION_DYNSYM)}
        offset = found.file_offset(exported["PyInit__ctypes"].value)
        assert offset is not None
        assert found.read(offset, 4) == path.read_bytes()[offset : offset + 4]
        assert found.file_offset(exported["PyInit__ctypes"].value + (1 << 40)) is None


def test_a_library_stripped_of_section_headers_is_read_as_the_linker_does() -> None:
    """What ld.so reads is in the dynamic segment: no section header is needed."""
    source = bytearray(Path(_ctypes.__file__).read_bytes())
    whole = {each.name for each in Elf(bytes(source)).symbols(elf.SECTION_DYNSYM) if each.section}
    struct.pack_into("<Q", source, 40, 0)  # e_shoff
    struct.pack_into("<HH", source, 60, 0, 0)  # e_shnum, e_shstrndx
    stripped = Elf(bytes(source))
    assert stripped.sections == ()
    found = stripped.symbols(elf.SECTION_DYNSYM)
    assert {each.name for each in found if each.section} == whole


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x7fELG"),
        (4, b"\x01"),  # 32-bit
        (5, b"\x02"),  # big-endian
        (40, struct.pack("<Q", 1 << 62)),  # section headers far away
        (40, struct.pack("<Q", 0xFFF)),  # cut off
        (60, struct.pack("<H", 0xFFFF)),  # too many sections
        (58, struct.pack("<H", 8)),  # of the wrong size
        (62, struct.pack("<H", 99)),  # names nowhere
        (56, struct.pack("<H", 0xFFFF)),  # too many segments
        (54, struct.pack("<H", 8)),
        (0x800 + 64 + 40, struct.pack("<I", 77)),  # names of symbols nowhere
        (0x800 + 64 + 32, struct.pack("<Q", 1 << 40)),  # symbols without end
        (0x800 + 128 + 24, struct.pack("<Q", 1 << 63)),  # names of symbols far away
        (0x418, struct.pack("<I", 0xFFFFFFFF)),  # a name outside
        (0x308, struct.pack("<Q", 1 << 60)),  # the dynamic names outside
        (0x800 + 5 * 64 + 32, struct.pack("<Q", 1 << 50)),  # relocations without end
    ],
)
def test_what_is_off_is_told(at: int, value: bytes) -> None:
    data = make()
    data[at : at + len(value)] = value
    with pytest.raises(ForeignDataError):
        everything(bytes(data))


def test_an_empty_and_a_cut_file_are_told() -> None:
    data = bytes(make())
    for size in (0, 1, 63, 64, 100, 0x7FF, 0x900):
        with pytest.raises(ForeignDataError):
            everything(data[:size])


def test_names_without_end_are_told_before_they_fill_memory() -> None:
    """65,536 symbols, each with the same long name: the sum of names is bounded."""
    data = make()
    count, names_at = 65536, 0x1000 + 65536 * 24
    data += bytearray(count * 24) + b"\0" + b"n" * 1000 + b"\0"
    for index in range(count):
        struct.pack_into("<I", data, 0x1000 + 24 * index, 1)
    struct.pack_into("<QQ", data, 0x800 + 64 + 24, 0x1000, count * 24)
    struct.pack_into("<QQ", data, 0x800 + 128 + 24, names_at, 1002)
    began = time.monotonic()
    with pytest.raises(ForeignDataError, match="names of over"):
        Elf(bytes(data)).symbols(elf.SECTION_DYNSYM)
    assert time.monotonic() - began < 30  # bounded, whatever the machine


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 0x9FF), st.binary(min_size=1, max_size=8)), max_size=12
    ),
    size=st.integers(0, 0x1000),
)
def test_any_change_is_read_or_told(changes: list[tuple[int, bytes]], size: int) -> None:
    data = make()
    for at, value in changes:
        data[at : at + len(value)] = value
    for cut in (len(data), size):
        try:
            everything(bytes(data[:cut]))
        except ForeignDataError:
            continue


@given(data=st.binary(max_size=512))
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    for prefix in (b"", b"\x7fELF\x02\x01\x01" + bytes(9)):
        try:
            everything(prefix + data)
        except ForeignDataError:
            continue
