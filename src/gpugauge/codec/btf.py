"""BTF: the types of a BPF object, and where Linux keeps the ids of its kfuncs.

Pure: bytes in, records out; every length is checked before use, loops are
bounded by the buffer and walks along types by a depth, so hostile bytes cost
bounded time. The only error is ForeignDataError.
Format: Documentation/bpf/btf.rst of Linux.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from gpugauge.errors import ForeignDataError

MAGIC = 0xEB9F
MAX_TYPES = 1 << 16  # of an object; ours have under 1,000
MAX_DEPTH = 32
MAX_BYTES = 1 << 24
MAX_SIZE = 1 << 28  # of one value

_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_WORDS3 = struct.Struct("<III")
_WORDS2 = struct.Struct("<II")


class Kind(IntEnum):
    """BTF_KIND_*: the kind of a type."""

    VOID = 0
    INT = 1
    POINTER = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FORWARD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNCTION = 12
    PROTOTYPE = 13
    VARIABLE = 14
    SECTION = 15
    FLOAT = 16
    DECLARATION_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


# Bytes after the 12 of a type: (fixed, per member).
EXTRA_BYTES: dict[int, tuple[int, int]] = {
    Kind.INT: (4, 0),
    Kind.POINTER: (0, 0),
    Kind.ARRAY: (12, 0),
    Kind.STRUCT: (0, 12),
    Kind.UNION: (0, 12),
    Kind.ENUM: (0, 8),
    Kind.FORWARD: (0, 0),
    Kind.TYPEDEF: (0, 0),
    Kind.VOLATILE: (0, 0),
    Kind.CONST: (0, 0),
    Kind.RESTRICT: (0, 0),
    Kind.FUNCTION: (0, 0),
    Kind.PROTOTYPE: (0, 8),
    Kind.VARIABLE: (4, 0),
    Kind.SECTION: (0, 12),
    Kind.FLOAT: (0, 0),
    Kind.DECLARATION_TAG: (4, 0),
    Kind.TYPE_TAG: (0, 0),
    Kind.ENUM64: (0, 12),
}
MODIFIERS = frozenset({Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})


@dataclass(frozen=True, slots=True)
class Type:
    """One type. `size_or_type` is a size in bytes or a type id, by kind."""

    id: int
    kind: Kind
    name: str
    count: int
    """Members, parameters, values; for a function its linkage."""
    flag: bool
    """Bit fields in a struct, signed values in an enum."""
    size_or_type: int
    position: int
    """Where its 12 bytes begin in the buffer."""
    extra: tuple[tuple[int, ...], ...]
    """Words after those, by member."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a struct or union."""

    name: str
    type: int
    offset_bits: int


_VOID = Type(0, Kind.VOID, "", 0, False, 0, 0, ())


class Btf:
    """The types of one BPF object.

    Raises:
        ForeignDataError: The bytes are not little-endian BTF, or a type or a
            name lies outside them.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._types_start, types_end, self._strings_start, self._strings_end = bounds(data)
        self.types = [_VOID, *self._walk(types_end)]

    def type(self, type_id: int) -> Type:
        """Return a type by id; 0 is void."""
        if not 0 <= type_id < len(self.types):
            raise ForeignDataError(f"BTF type {type_id} does not exist.")
        return self.types[type_id]

    def find(self, name: str, kind: Kind) -> Type | None:
        """Return the first type of that name and kind, or None."""
        return next((each for each in self.types if each.kind == kind and each.name == name), None)

    def resolve(self, type_id: int) -> Type:
        """Return the type behind typedefs and qualifiers."""
        for _ in range(MAX_DEPTH):
            found = self.type(type_id)
            if found.kind not in MODIFIERS:
                return found
            type_id = found.size_or_type
        raise ForeignDataError(f"BTF type {type_id}: more than {MAX_DEPTH} qualifiers.")

    def size(self, type_id: int) -> int:
        """Return the size of a value of the type, in bytes."""
        total = 1
        for _ in range(MAX_DEPTH):
            found = self.resolve(type_id)
            if found.kind == Kind.ARRAY:
                type_id, _, length = found.extra[0]
                total *= length
            elif found.kind == Kind.VARIABLE:
                type_id = found.size_or_type
            elif found.kind == Kind.POINTER or found.kind in _SIZED:
                total *= 8 if found.kind == Kind.POINTER else found.size_or_type
                if total > MAX_SIZE:
                    raise ForeignDataError(f"BTF type {type_id} is of {total} bytes.")
                return total
            else:
                break
        raise ForeignDataError(f"BTF type {type_id} has no size.")

    def members(self, type_id: int) -> tuple[Member, ...]:
        """Return the members of a struct or union."""
        found = self.resolve(type_id)
        if found.kind not in (Kind.STRUCT, Kind.UNION):
            raise ForeignDataError(f"BTF type {type_id} is not a struct.")
        mask = 0xFFFFFF if found.flag else 0xFFFFFFFF  # the upper byte is a bit field's width
        return tuple(
            Member(self.string(name), member_type, offset & mask)
            for name, member_type, offset in found.extra
        )

    def string(self, offset: int) -> str:
        """Return a name by its offset among the strings."""
        start = self._strings_start + offset
        end = self.data.find(b"\0", start, self._strings_end)
        if offset < 0 or end < 0:
            raise ForeignDataError("A BTF name lies outside its strings.")
        return self.data[start:end].decode("utf-8", "replace")

    def _walk(self, end: int) -> Iterator[Type]:
        data = self.data
        position = self._types_start
        type_id = 0
        while position < end:
            type_id += 1
            if type_id > MAX_TYPES:
                raise ForeignDataError(f"BTF with more than {MAX_TYPES} types.")
            if position + 12 > end:
                raise ForeignDataError("The last BTF type is cut off.")
            name, info, size_or_type = _TYPE.unpack_from(data, position)
            kind, count = info >> 24 & 31, info & 0xFFFF
            if kind not in EXTRA_BYTES:
                raise ForeignDataError(f"BTF type {type_id} is of unknown kind {kind}.")
            fixed, each = EXTRA_BYTES[kind]
            size = fixed + each * count
            if position + 12 + size > end:
                raise ForeignDataError(f"BTF type {type_id} is cut off.")
            width = (fixed or each) // 4
            words = struct.unpack_from(f"<{size // 4}I", data, position + 12)
            extra = tuple(words[at : at + width] for at in range(0, len(words), width or 1))
            yield Type(
                type_id,
                Kind(kind),
                self.string(name),
                count,
                bool(info >> 31),
                size_or_type,
                position,
                extra,
            )
            position += 12 + size


_SIZED = frozenset({Kind.INT, Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.FLOAT})


def bounds(data: bytes) -> tuple[int, int, int, int]:
    """Return start and end of the types and of the strings."""
    if len(data) < _HEADER.size or len(data) > MAX_BYTES:
        raise ForeignDataError(f"BTF of {len(data)} bytes.")
    magic, version, _, header, type_off, type_len, string_off, string_len = _HEADER.unpack_from(
        data
    )
    if magic != MAGIC or version != 1:
        raise ForeignDataError("Not little-endian BTF of version 1.")
    types, strings = header + type_off, header + string_off
    if (
        header < _HEADER.size
        or types + type_len > len(data)
        or strings + string_len > len(data)
        or types % 4
    ):
        raise ForeignDataError("The parts of the BTF lie outside it.")
    return types, types + type_len, strings, strings + string_len
