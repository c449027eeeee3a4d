"""A compiled BPF object, taken apart: sections, functions, maps it defines."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gpugauge.codec import elf
from gpugauge.codec.btf import Btf, Kind, Type
from gpugauge.ebpf.btf_ext import BtfExt
from gpugauge.errors import ForeignDataError

DATA_SECTIONS = (".rodata", ".data", ".bss")
MAX_SECTION_BYTES = 1 << 22
MAX_NUMBER = (1 << 32) - 1

# BPF_F_* of map_flags, and BPF_MAP_TYPE_ARRAY.
MAP_READ_ONLY_PROGRAM = 1 << 7
MAP_MMAPABLE = 1 << 10
MAP_TYPE_ARRAY = 2


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the object: instructions of one section."""

    name: str
    section: int
    start: int
    """Offset in its section, in bytes."""
    size: int
    exported: bool
    """A program or a global function; false for a static one."""


@dataclass(frozen=True, slots=True)
class MapDefinition:
    """A map as the object defines it."""

    name: str
    type: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    extra: int = 0
    key_type: int = 0
    value_type: int = 0
    content: bytes | None = None
    """First content, for the map behind a data section."""
    frozen: bool = False


class BpfObject:
    """What an object file holds.

    Raises:
        ForeignDataError: Not a BPF object, or one with parts not known here.
    """

    def __init__(self, data: bytes) -> None:
        self.elf = elf.Elf(data)
        if any(each.size > MAX_SECTION_BYTES for each in self.elf.sections):
            raise ForeignDataError(f"A BPF object with a section over {MAX_SECTION_BYTES} bytes.")
        if self.elf.machine != elf.MACHINE_BPF or self.elf.type != elf.TYPE_RELOCATABLE:
            raise ForeignDataError("Not a BPF object file.")
        self.symbols = self.elf.symbols()
        self.btf = Btf(self._content(".BTF"))
        self.ext = BtfExt(self._content(".BTF.ext"), self.btf)

    @cached_property
    def license(self) -> str:
        """The licence the programs state; some helpers want a GPL-compatible one."""
        return self._content("license").split(b"\0")[0].decode("ascii", "replace")

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function with code, in the order of its section and offset."""
        code = {
            each.index
            for each in self.elf.sections
            if each.flags & elf.FLAG_EXECUTE and each.type == elf.SECTION_PROGBITS
        }
        found = [
            Function(each.name, each.section, each.value, each.size, each.binding != 0)
            for each in self.symbols
            if each.type == elf.SYMBOL_FUNCTION and each.section in code
        ]
        return tuple(sorted(found, key=lambda each: (each.section, each.start)))

    @cached_property
    def programs(self) -> dict[str, Function]:
        """Exported functions outside .text, by name."""
        return {
            each.name: each
            for each in self.functions
            if each.exported and self.elf.sections[each.section].name != ".text"
        }

    def section_name(self, function: Function) -> str:
        """Return the name of the section of a function, which says what it attaches to."""
        return self.elf.sections[function.section].name

    @cached_property
    def relocations(self) -> dict[int, dict[int, elf.Relocation]]:
        """Relocations by section and offset."""
        return {
            section.info: {each.offset: each for each in self.elf.relocations(section)}
            for section in self.elf.sections
            if section.type == elf.SECTION_REL
        }

    def maps(
        self, rodata: Mapping[str, int], entries: Mapping[str, int]
    ) -> dict[str, MapDefinition]:
        """Return the maps to create: those of .maps, and one behind each data section.

        Args:
            rodata: Values of `const volatile` settings, by name.
            entries: max_entries by map name, in place of what the object says.

        Raises:
            ForeignDataError: A setting or a map the object does not have.
        """
        found: dict[str, MapDefinition] = {}
        section = self.btf.find(".maps", Kind.SECTION)
        for type_id, _, _ in section.extra if section else ():
            variable = self.btf.type(type_id)
            if variable.kind != Kind.VARIABLE:
                raise ForeignDataError(f"{variable.name!r} in .maps is no variable.")
            found[variable.name] = self._definition(variable, entries)
        for name in entries:
            if name not in found:
                raise ForeignDataError(f"The BPF object has no map {name}.")
        contents = self._data_sections()
        for setting, value in rodata.items():
            self._patch(contents, setting, value)
        for name, content in contents.items():
            found[name] = self._data_map(name, bytes(content))
        return found

    def _content(self, name: str) -> bytes:
        section = self.elf.section(name)
        if section is None:
            raise ForeignDataError(f"The BPF object has no section {name}.")
        return self.elf.data(section)

    def _data_sections(self) -> dict[str, bytearray]:
        found = {}
        for section in self.elf.sections:
            if not section.size or not section.name.startswith(DATA_SECTIONS):
                continue
            zeros = section.type == elf.SECTION_NOBITS
            found[section.name] = bytearray(
                bytes(section.size) if zeros else self.elf.data(section)
            )
        return found

    def _patch(self, contents: dict[str, bytearray], setting: str, value: int) -> None:
        symbol = next(
            (e for e in self.symbols if e.name == setting and e.type == elf.SYMBOL_OBJECT), None
        )
        if symbol is None or not 0 < symbol.section < len(self.elf.sections):
            raise ForeignDataError(f"The BPF object has no setting {setting}.")
        content = contents.get(self.elf.sections[symbol.section].name)
        end = symbol.value + symbol.size
        if content is None or end > len(content):
            raise ForeignDataError(f"The BPF object keeps {setting} outside its data.")
        try:
            content[symbol.value : end] = value.to_bytes(symbol.size, "little", signed=value < 0)
        except OverflowError:
            raise ForeignDataError(
                f"{setting} = {value} does not fit into {symbol.size} bytes."
            ) from None

    def _data_map(self, name: str, content: bytes) -> MapDefinition:
        constant = name.startswith(".rodata")
        section = self.btf.find(name, Kind.SECTION)
        return MapDefinition(
            name=name,
            type=MAP_TYPE_ARRAY,
            key_size=4,
            value_size=len(content),
            max_entries=1,
            flags=MAP_MMAPABLE | (MAP_READ_ONLY_PROGRAM if constant else 0),
            value_type=section.id if section else 0,
            content=content,
            frozen=constant,
        )

    def _definition(self, variable: Type, entries: Mapping[str, int]) -> MapDefinition:
        fields = {
            each.name: self._field(each.name, each.type)
            for each in self.btf.members(variable.size_or_type)
        }
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise ForeignDataError(f"BPF map {variable.name}: {unknown.pop()} is not known here.")
        key_type, value_type = fields.get("key", 0), fields.get("value", 0)
        return MapDefinition(
            name=variable.name,
            type=fields.get("type", 0),
            key_size=self.btf.size(key_type) if key_type else fields.get("key_size", 0),
            value_size=self.btf.size(value_type) if value_type else fields.get("value_size", 0),
            max_entries=entries.get(variable.name, fields.get("max_entries", 0)),
            flags=fields.get("map_flags", 0),
            extra=fields.get("map_extra", 0),
            key_type=key_type,
            value_type=value_type,
        )

    def _field(self, name: str, type_id: int) -> int:
        """Numbers are written as pointers to arrays of that many, types as pointers to them."""
        pointer = self.btf.resolve(type_id)
        if pointer.kind != Kind.POINTER:
            raise ForeignDataError(f"BPF map field {name} is not written as a pointer.")
        if name in ("key", "value"):
            return pointer.size_or_type
        array = self.btf.resolve(pointer.size_or_type)
        if array.kind != Kind.ARRAY:
            raise ForeignDataError(f"BPF map field {name} is not a number.")
        return array.extra[0][2]


_FIELDS = frozenset(
    {"type", "key", "value", "key_size", "value_size", "max_entries", "map_flags", "map_extra"}
)


def loadable_btf(bpf_object: BpfObject) -> bytes:
    """Return the object's BTF in the form that Linux takes.

    The compiler leaves sizes and offsets of data sections at 0: they come
    from the symbol table. Functions of Linux (.ksyms) are declared with a linkage
    that Linux refuses: nothing refers to them, so they become forward
    declarations and their section an anonymous struct.
    """
    data = bytearray(bpf_object.btf.data)
    types = bpf_object.btf.types
    offsets = {each.name: each.value & MAX_NUMBER for each in bpf_object.symbols}
    number = next((each.id for each in types if each.kind == Kind.INT), 0)
    for each in types:
        if each.kind == Kind.FUNCTION and each.count == 2:  # BTF_FUNC_EXTERN
            struct.pack_into("<II", data, each.position + 4, Kind.FORWARD << 24, 0)
        if each.kind != Kind.SECTION:
            continue
        if each.name == ".ksyms":
            size = bpf_object.btf.size(number)
            head = (0, Kind.STRUCT << 24 | each.count, size)
            struct.pack_into("<III", data, each.position, *head)
            for index in range(each.count):
                struct.pack_into("<III", data, each.position + 12 + 12 * index, 0, number, 0)
            continue
        section = bpf_object.elf.section(each.name)
        if section is None:
            raise ForeignDataError(f"The BTF has a section {each.name}, the BPF object has none.")
        struct.pack_into("<I", data, each.position + 8, section.size)
        entries = sorted(
            (offsets.get(bpf_object.btf.type(type_id).name, offset), type_id, size)
            for type_id, offset, size in each.extra
        )
        for index, (offset, type_id, size) in enumerate(entries):
            at = each.position + 12 + 12 * index
            struct.pack_into("<III", data, at, type_id, offset, size)
    return bytes(data)
