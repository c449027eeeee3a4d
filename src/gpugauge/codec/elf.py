"""ELF files: what is needed of our own BPF objects and of foreign driver libraries.

Pure: bytes in, records out. The buffer may be bytes or a read-only mmap; only
the parts asked for are read. Every count, offset and length is checked
against the buffer and against a limit before use, there is no recursion and
every loop is bounded, so a hostile file costs bounded time and memory.
The only error is ForeignDataError. Format: elf(5) and the System V gABI.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from mmap import mmap

from gpugauge.codec import elf_dynamic
from gpugauge.codec.elf_records import Relocation, Section, Segment, Symbol
from gpugauge.errors import ForeignDataError

__all__ = ["Elf", "Relocation", "Section", "Segment", "Symbol"]

Buffer = bytes | bytearray | memoryview | mmap

MACHINE_X86_64 = 62
MACHINE_AARCH64 = 183
MACHINE_BPF = 247

TYPE_RELOCATABLE = 1
TYPE_SHARED = 3

SECTION_PROGBITS = 1
SECTION_SYMTAB = 2
SECTION_STRTAB = 3
SECTION_NOBITS = 8
SECTION_REL = 9
SECTION_DYNSYM = 11
FLAG_WRITE = 1
FLAG_EXECUTE = 4

SEGMENT_LOAD = 1
SEGMENT_DYNAMIC = 2
SEGMENT_NOTE = 4

SYMBOL_OBJECT = 1
SYMBOL_FUNCTION = 2
SYMBOL_SECTION = 3
BIND_LOCAL = 0
BIND_GLOBAL = 1
BIND_WEAK = 2
UNDEFINED_SECTION = 0

MAX_SECTIONS = 4096
MAX_SEGMENTS = 256
MAX_SYMBOLS = 1 << 16  # libcuda 580 exports 671
MAX_RELOCATIONS = 1 << 18
MAX_NAMES_BYTES = 1 << 23  # all names of a symbol table together
MAX_READ_BYTES = 1 << 26
MAX_NAME_BYTES = 1024

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REL = struct.Struct("<QQ")


class Elf:
    """A 64-bit little-endian ELF file in a buffer that outlives this object.

    Raises:
        ForeignDataError: The buffer is not such a file, or a part that was
            asked for lies outside it or above a limit.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._size = len(buffer)
        header = self._read(0, _HEADER.size, "ELF header")
        (
            ident,
            self.type,
            self.machine,
            version,
            _entry,
            self._segment_offset,
            self._section_offset,
            _flags,
            _header_size,
            segment_size,
            self._segment_count,
            section_size,
            self._section_count,
            self._names_index,
        ) = _HEADER.unpack(header)
        if ident[:4] != b"\x7fELF":
            raise ForeignDataError("Not an ELF file.")
        if ident[4] != 2 or ident[5] != 1 or ident[6] != 1 or version != 1:
            raise ForeignDataError("Not a 64-bit little-endian ELF file.")
        if self._segment_count and segment_size != _SEGMENT.size:
            raise ForeignDataError(f"ELF program headers of {segment_size} bytes.")
        if self._section_count and section_size != _SECTION.size:
            raise ForeignDataError(f"ELF section headers of {section_size} bytes.")
        _limit(self._segment_count, MAX_SEGMENTS, "program headers")
        _limit(self._section_count, MAX_SECTIONS, "section headers")

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Program headers, in file order."""
        table = self._table(self._segment_offset, self._segment_count, _SEGMENT, "program headers")
        return tuple(
            Segment(kind, flags, offset, address, file_size, memory_size)
            for kind, flags, offset, address, _, file_size, memory_size, _ in table
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Section headers, in file order; empty for a file stripped of them."""
        table = list(
            self._table(self._section_offset, self._section_count, _SECTION, "section headers")
        )
        if not table:
            return ()
        if self._names_index >= len(table):
            raise ForeignDataError("ELF section names lie in a section that does not exist.")
        names_offset, names_size = table[self._names_index][4:6]
        return tuple(
            Section(
                index,
                self._string(names_offset, names_size, row[0]),
                row[1],
                row[2],
                row[3],
                row[4],
                row[5],
                row[6],
                row[7],
                row[9],
            )
            for index, row in enumerate(table)
        )

    def section(self, name: str) -> Section | None:
        """Return the first section of that name, or None."""
        return next((each for each in self.sections if each.name == name), None)

    def data(self, section: Section) -> bytes:
        """Return the bytes of a section; zeros are not made up for one that holds none."""
        if section.type == SECTION_NOBITS:
            return b""
        return self._read(section.offset, section.size, f"section {section.name!r}")

    def symbols(self, section_type: int = SECTION_SYMTAB) -> tuple[Symbol, ...]:
        """Return the symbols of the first symbol table of that type (SYMTAB or DYNSYM).

        Index 0 is the null symbol, so that relocations index this tuple.
        Dynamic symbols of a file without section headers are found as ld.so finds
        them. Empty where there is no such table.
        """
        table = next((each for each in self.sections if each.type == section_type), None)
        if table is None:
            stripped = section_type == SECTION_DYNSYM and not self.sections
            return self._dynamic_symbols() if stripped else ()
        if table.link >= len(self.sections):
            raise ForeignDataError("ELF symbol names lie in a section that does not exist.")
        strings = self.sections[table.link]
        count = table.size // _SYMBOL.size
        return self._symbols(table.offset, count, strings.offset, strings.size)

    def _symbols(
        self, offset: int, count: int, strings: int, strings_size: int
    ) -> tuple[Symbol, ...]:
        _limit(count, MAX_SYMBOLS, "symbols")
        found = []
        names_bytes = 0
        for row in self._table(offset, count, _SYMBOL, "symbols"):
            name, info, _other, section, value, size = row
            text = self._string(strings, strings_size, name)
            names_bytes += len(text)
            if names_bytes > MAX_NAMES_BYTES:
                raise ForeignDataError(f"ELF symbol names of over {MAX_NAMES_BYTES} bytes.")
            found.append(Symbol(text, value, size, info & 15, info >> 4, section))
        return tuple(found)

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """Yield the entries of a REL section."""
        count = section.size // _REL.size
        _limit(count, MAX_RELOCATIONS, "relocations")
        for offset, info in self._table(section.offset, count, _REL, "relocations"):
            yield Relocation(offset, info & 0xFFFFFFFF, info >> 32)

    def file_offset(self, address: int) -> int | None:
        """Return where in the file a virtual address lies, or None for none."""
        for segment in self.segments:
            if segment.type != SEGMENT_LOAD:
                continue
            if segment.address <= address < segment.address + segment.file_size:
                offset = address - segment.address + segment.offset
                return offset if offset < self._size else None
        return None

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at a file offset."""
        return self._read(offset, size, "bytes")

    def soname(self) -> str:
        """Return DT_SONAME, or "" where the file has none."""
        tags = self._dynamic
        if elf_dynamic.SONAME not in tags or elf_dynamic.STRINGS not in tags:
            return ""
        strings = self._mapped(tags[elf_dynamic.STRINGS])
        size = tags.get(elf_dynamic.STRINGS_SIZE, 0)
        return self._string(strings, size, tags[elf_dynamic.SONAME])

    def build_id(self) -> str:
        """Return the GNU build id in hex, or "" where there is none."""
        for segment in self.segments:
            if segment.type == SEGMENT_NOTE:
                size = min(segment.file_size, elf_dynamic.MAX_NOTE_BYTES)
                found = elf_dynamic.build_id(self._read(segment.offset, size, "note"))
                if found:
                    return found
        return ""

    @cached_property
    def _dynamic(self) -> dict[int, int]:
        found = next((each for each in self.segments if each.type == SEGMENT_DYNAMIC), None)
        if found is None:
            return {}
        size = min(found.file_size, 16 * elf_dynamic.MAX_ENTRIES)
        return elf_dynamic.entries(self._read(found.offset, size, "dynamic entries"))

    def _dynamic_symbols(self) -> tuple[Symbol, ...]:
        tags = self._dynamic
        if elf_dynamic.SYMBOLS not in tags or elf_dynamic.STRINGS not in tags:
            return ()
        count = elf_dynamic.symbol_count(tags, self.file_offset, self.read, MAX_SYMBOLS)
        symbols, strings = (
            self._mapped(tags[each]) for each in (elf_dynamic.SYMBOLS, elf_dynamic.STRINGS)
        )
        return self._symbols(symbols, count, strings, tags.get(elf_dynamic.STRINGS_SIZE, 0))

    def _mapped(self, address: int) -> int:
        offset = self.file_offset(address)
        if offset is None:
            raise ForeignDataError("The ELF dynamic segment points outside the file.")
        return offset

    def _read(self, offset: int, size: int, what: str) -> bytes:
        if offset < 0 or size < 0 or offset + size > self._size:
            raise ForeignDataError(f"ELF {what}: {size} bytes at {offset} lie outside the file.")
        if size > MAX_READ_BYTES:
            raise ForeignDataError(f"ELF {what} of {size} bytes.")
        return bytes(self._buffer[offset : offset + size])

    def _table(
        self, offset: int, count: int, entry: struct.Struct, what: str
    ) -> Iterator[tuple[int, ...]]:
        return entry.iter_unpack(self._read(offset, count * entry.size, what))

    def _string(self, offset: int, size: int, index: int) -> str:
        if index >= size:
            raise ForeignDataError("An ELF name lies outside its string table.")
        room = min(size - index, MAX_NAME_BYTES)
        start = offset + index
        available = max(0, min(room, self._size - start))
        text = self._read(start, available, "name") if available else b""
        end = text.find(b"\0")
        if end < 0:
            raise ForeignDataError(f"An ELF name has no end within {MAX_NAME_BYTES} bytes.")
        return text[:end].decode("utf-8", "replace")


def _limit(count: int, most: int, what: str) -> None:
    if count > most:
        raise ForeignDataError(f"ELF file with {count} {what}; at most {most} are read.")
