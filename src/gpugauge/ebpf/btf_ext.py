""".BTF.ext of a BPF object: which type a function has, and which source line an instruction."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpugauge.codec.btf import Btf
from gpugauge.errors import ForeignDataError

MAX_RECORDS = 1 << 18

_HEADER = struct.Struct("<HBBIIIII")


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one kind: by section name, (offset of the instruction in bytes, the rest)."""

    size: int
    by_section: dict[str, list[tuple[int, bytes]]]

    def of(self, section: str, start: int, end: int, base: int) -> list[bytes]:
        """Return the records of a range of a section, moved to instruction number `base`."""
        return [
            struct.pack("<I", base + (offset - start) // 8) + rest
            for offset, rest in self.by_section.get(section, ())
            if start <= offset < end
        ]


class BtfExt:
    """Function and line records.

    Raises:
        ForeignDataError: Lengths that do not fit the bytes.
    """

    def __init__(self, data: bytes, types: Btf) -> None:
        if len(data) < _HEADER.size:
            raise ForeignDataError("The .BTF.ext is cut off.")
        _, _, _, header, function_at, function_size, line_at, line_size = _HEADER.unpack_from(data)
        self.functions = _records(data, header + function_at, function_size, types, 8)
        self.lines = _records(data, header + line_at, line_size, types, 16)


def _records(data: bytes, start: int, size: int, types: Btf, least: int) -> Records:
    end = start + size
    if end > len(data) or size < 4:
        raise ForeignDataError("The records of .BTF.ext lie outside it.")
    (each,) = struct.unpack_from("<I", data, start)
    if each < least or each > 256 or each % 4:
        raise ForeignDataError(f".BTF.ext records of {each} bytes.")
    found: dict[str, list[tuple[int, bytes]]] = {}
    position, total = start + 4, 0
    while position + 8 <= end:
        name, count = struct.unpack_from("<II", data, position)
        position += 8
        total += count
        if position + count * each > end or total > MAX_RECORDS:
            raise ForeignDataError("The records of .BTF.ext lie outside it.")
        rows = found.setdefault(types.string(name), [])
        for at in range(position, position + count * each, each):
            (offset,) = struct.unpack_from("<I", data, at)
            rows.append((offset, data[at + 4 : at + each]))
        position += count * each
    return Records(each, found)
