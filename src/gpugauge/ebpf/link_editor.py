"""Puts a program together: its function, the functions it calls, addresses of maps filled in.

The compiler leaves a program as pieces: one section for the program, .text for
functions that were not inlined, relocations for whatever has no address yet.
Linux wants one array of instructions with every call relative.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from gpugauge.codec import elf
from gpugauge.ebpf.object import BpfObject, Function
from gpugauge.errors import ForeignDataError, UnsupportedError

# Relocation types of BPF objects (Documentation/bpf/llvm_reloc.rst).
R_BPF_64_64 = 1
R_BPF_64_32 = 10

# Opcodes and the pseudo source registers that say what an immediate is.
CALL = 0x85
LOAD_64 = 0x18
PSEUDO_CALL = 1
PSEUDO_KFUNC_CALL = 2
PSEUDO_MAP_FD = 1
PSEUDO_MAP_VALUE = 2
PSEUDO_FUNC = 4

MAX_FUNCTIONS = 256
MAX_INSTRUCTIONS = 1 << 20

_IMMEDIATE = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Code:
    """A program as Linux takes it."""

    instructions: bytes
    function_info: bytes
    function_info_size: int
    line_info: bytes
    line_info_size: int


class LinkEditor:
    """Puts programs of one object together.

    Args:
        bpf_object: Where the pieces are.
        map_fds: Descriptors of the created maps, data sections by section name.
        kfunc_ids: BTF ids of functions of Linux.
    """

    def __init__(
        self, bpf_object: BpfObject, map_fds: Mapping[str, int], kfunc_ids: Mapping[str, int]
    ) -> None:
        self._object = bpf_object
        self._map_fds = map_fds
        self._kfunc_ids = kfunc_ids
        self._by_start = {(each.section, each.start): each for each in bpf_object.functions}

    def link(self, program: Function) -> Code:
        """Return the program with all it calls.

        Raises:
            ForeignDataError: A relocation that is not known here.
            UnsupportedError: It calls a function this Linux does not have.
        """
        base: dict[Function, int] = {program: 0}
        order = [program]
        length = program.size // 8
        for function in order:  # grows while it runs, once per function
            for callee in self._callees(function):
                if callee in base:
                    continue
                if len(order) >= MAX_FUNCTIONS or length > MAX_INSTRUCTIONS:
                    raise ForeignDataError(f"BPF program {program.name} is too large.")
                base[callee] = length
                order.append(callee)
                length += callee.size // 8
        code = bytearray()
        for function in order:
            code += self._relocated(function, base)
        ext = self._object.ext
        function_info, line_info = [], []
        for function in order:
            place = (
                self._object.section_name(function),
                function.start,
                function.start + function.size,
                base[function],
            )
            function_info += ext.functions.of(*place)
            line_info += ext.lines.of(*place)
        return Code(
            bytes(code),
            b"".join(function_info),
            ext.functions.size,
            b"".join(line_info),
            ext.lines.size,
        )

    def kfuncs(self, program: Function) -> set[str]:
        """Return the names of the functions of Linux that a program calls."""
        names: set[str] = set()
        order = [program]
        for function in order:
            if len(order) > MAX_FUNCTIONS:
                raise ForeignDataError(f"BPF program {program.name} is too large.")
            order += [each for each in self._callees(function) if each not in order]
            for relocation in self._relocations(function).values():
                symbol = self._symbol(relocation)
                if symbol.section == elf.UNDEFINED_SECTION:
                    names.add(symbol.name)
        return names

    def _relocations(self, function: Function) -> dict[int, elf.Relocation]:
        """Relocations inside a function, by offset in it."""
        found = self._object.relocations.get(function.section, {})
        return {
            offset - function.start: each
            for offset, each in found.items()
            if function.start <= offset < function.start + function.size
        }

    def _symbol(self, relocation: elf.Relocation) -> elf.Symbol:
        if relocation.symbol >= len(self._object.symbols):
            raise ForeignDataError("A BPF relocation has no symbol.")
        return self._object.symbols[relocation.symbol]

    def _code(self, function: Function) -> bytes:
        section = self._object.elf.sections[function.section]
        if function.start + function.size > section.size or function.size % 8:
            raise ForeignDataError(f"BPF function {function.name} lies outside its section.")
        return self._object.elf.read(section.offset + function.start, function.size)

    def _callees(self, function: Function) -> list[Function]:
        code, relocations = self._code(function), self._relocations(function)
        found = []
        for at in range(0, len(code), 8):
            callee = self._callee(function, code, at, relocations.get(at))
            if callee is not None:
                found.append(callee)
        return found

    def _callee(
        self, function: Function, code: bytes, at: int, relocation: elf.Relocation | None
    ) -> Function | None:
        """Return the function that an instruction calls or takes the address of."""
        opcode, source = code[at], code[at + 1] >> 4
        (immediate,) = _IMMEDIATE.unpack_from(code, at + 4)
        if relocation is None:
            if opcode != CALL or source != PSEUDO_CALL:
                return None
            start = function.start + at + 8 * (immediate + 1)
            return self._function(function.section, start)
        symbol = self._symbol(relocation)
        if symbol.section == elf.UNDEFINED_SECTION:
            return None
        if opcode == CALL and source == PSEUDO_CALL:
            # A section's symbol: the target is in the immediate, counted from it.
            plus = 8 * (immediate + 1) if symbol.type == elf.SYMBOL_SECTION else 0
            return self._function(symbol.section, symbol.value + plus)
        if opcode == LOAD_64 and self._executable(symbol.section):
            plus = immediate if symbol.type == elf.SYMBOL_SECTION else 0
            return self._function(symbol.section, symbol.value + plus)
        return None

    def _executable(self, index: int) -> bool:
        sections = self._object.elf.sections
        return index < len(sections) and bool(sections[index].flags & elf.FLAG_EXECUTE)

    def _function(self, section: int, start: int) -> Function:
        found = self._by_start.get((section, start))
        if found is None:
            raise ForeignDataError("A BPF program calls code that is no function.")
        return found

    def _relocated(self, function: Function, base: Mapping[Function, int]) -> bytes:
        code = bytearray(self._code(function))
        original = bytes(code)
        relocations = self._relocations(function)
        for at in range(0, len(code), 8):
            relocation = relocations.get(at)
            callee = self._callee(function, original, at, relocation)
            if callee is not None:
                if code[at] == LOAD_64:
                    code[at + 1] = code[at + 1] & 15 | PSEUDO_FUNC << 4
                relative = base[callee] - (base[function] + at // 8) - 1
                _IMMEDIATE.pack_into(code, at + 4, relative)
            elif relocation is not None:
                self._fill(function, code, at, relocation)
        return bytes(code)

    def _fill(
        self, function: Function, code: bytearray, at: int, relocation: elf.Relocation
    ) -> None:
        """Fill in the address of a map, of data or of a function of Linux."""
        symbol = self._symbol(relocation)
        if code[at] == CALL and symbol.section == elf.UNDEFINED_SECTION:
            if symbol.name not in self._kfunc_ids:
                raise UnsupportedError(
                    f"{function.name} calls {symbol.name}, which this Linux does not have."
                )
            code[at + 1] = code[at + 1] & 15 | PSEUDO_KFUNC_CALL << 4
            _IMMEDIATE.pack_into(code, at + 4, self._kfunc_ids[symbol.name])
            return
        if code[at] != LOAD_64 or relocation.type != R_BPF_64_64 or at + 16 > len(code):
            raise ForeignDataError(
                f"BPF function {function.name}: relocation {relocation.type} of {symbol.name!r} "
                "is not known here."
            )
        sections = self._object.elf.sections
        section = sections[symbol.section].name if symbol.section < len(sections) else ""
        if section == ".maps" and symbol.name in self._map_fds:
            code[at + 1] = code[at + 1] & 15 | PSEUDO_MAP_FD << 4
            _IMMEDIATE.pack_into(code, at + 4, self._map_fds[symbol.name])
        elif section in self._map_fds:
            (addend,) = _IMMEDIATE.unpack_from(code, at + 4)
            code[at + 1] = code[at + 1] & 15 | PSEUDO_MAP_VALUE << 4
            _IMMEDIATE.pack_into(code, at + 4, self._map_fds[section])
            offset = symbol.value + addend
            if not 0 <= offset < sections[symbol.section].size:
                raise ForeignDataError(f"BPF data {symbol.name!r} lies outside {section}.")
            _IMMEDIATE.pack_into(code, at + 12, offset)
        else:
            raise ForeignDataError(
                f"BPF function {function.name} refers to {symbol.name!r}, which is no map or data."
            )
