"""Layouts of the structs that BPF programs and Python share, read from the object's BTF."""

from __future__ import annotations

import re
import struct
from functools import cache

from gpugauge.codec.btf import Btf, Kind
from gpugauge.errors import ForeignDataError

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Layout:
    """Sizes and offsets of named structs.

    Raises:
        ForeignDataError: A struct or member that the object does not have.
    """

    def __init__(self, types: Btf) -> None:
        self._types = types
        self.size = cache(self._size)
        self.offset = cache(self._offset)
        self.struct = cache(self._struct)

    def _size(self, name: str) -> int:
        """Return the size of a struct in bytes."""
        return self._types.size(self._named(name))

    def _offset(self, name: str, path: str) -> int:
        """Return the offset of a member in bytes, by a path like `slots[3].bytes`."""
        return self._walk(name, path)[0]

    def member_size(self, name: str, path: str) -> int:
        """Return the size of a member in bytes, by path."""
        return self._types.size(self._walk(name, path)[1])

    def length(self, name: str, path: str) -> int:
        """Return the number of elements of an array member."""
        found = self._types.resolve(self._walk(name, path)[1])
        if found.kind != Kind.ARRAY:
            raise ForeignDataError(f"struct {name}: {path} is not an array.")
        return found.extra[0][2]

    def members(self, name: str) -> dict[str, int]:
        """Return the offset of each named member of a struct, in bytes."""
        return {
            each.name: each.offset_bits // 8
            for each in self._types.members(self._named(name))
            if each.name
        }

    def _struct(self, name: str) -> struct.Struct:
        """Return a struct.Struct of u64 lanes for a struct that is nothing but u64 members.

        Raises:
            ForeignDataError: Some member is not 64 bits wide.
        """
        if not self._all_u64(self._named(name)):
            raise ForeignDataError(f"struct {name} is not made of u64 alone.")
        return struct.Struct(f"<{self._size(name) // 8}Q")

    def _all_u64(self, type_id: int) -> bool:
        pending: list[int] = [type_id]
        seen: set[int] = set()
        while pending:
            found = self._types.resolve(pending.pop())
            if found.id in seen:
                continue
            seen.add(found.id)
            if found.kind == Kind.STRUCT:
                pending += [each.type for each in self._types.members(found.id)]
            elif found.kind == Kind.ARRAY:
                pending.append(found.extra[0][0])
            elif found.kind != Kind.INT or found.size_or_type != 8:
                return False
        return True

    def _named(self, name: str) -> int:
        found = self._types.find(name, Kind.STRUCT) or self._types.find(name, Kind.UNION)
        if found is None:
            raise ForeignDataError(f"The BPF object has no struct {name}.")
        return found.id

    def _walk(self, name: str, path: str) -> tuple[int, int]:
        current, offset, done = self._named(name), 0, 0
        for step in _STEP.finditer(path):
            between = path[done : step.start()]
            if between not in ("", "."):
                break
            done = step.end()
            found = self._types.resolve(current)
            if step[2] is not None:
                if found.kind != Kind.ARRAY or int(step[2]) >= found.extra[0][2]:
                    raise ForeignDataError(f"struct {name} has no {path}.")
                current = found.extra[0][0]
                offset += int(step[2]) * self._types.size(current)
                continue
            member = next((m for m in self._types.members(current) if m.name == step[1]), None)
            if member is None or member.offset_bits % 8:
                raise ForeignDataError(f"struct {name} has no {path}.")
            current, offset = member.type, offset + member.offset_bits // 8
        if done != len(path):
            raise ForeignDataError(f"{path!r} is not a path into struct {name}.")
        return offset, current
