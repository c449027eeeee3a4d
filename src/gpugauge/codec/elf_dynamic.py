"""The dynamic segment of an ELF file, and its notes: what is there without section headers.

Pure, bounded as `codec.elf`, which hands over how to read its buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from gpugauge.errors import ForeignDataError

MAX_ENTRIES = 1024
MAX_NOTE_BYTES = 4096

HASH = 4
STRINGS = 5
SYMBOLS = 6
STRINGS_SIZE = 10
SONAME = 14
GNU_HASH = 0x6FFFFEF5

_ENTRY = struct.Struct("<qQ")
_BUILD_ID = 3


def entries(data: bytes) -> dict[int, int]:
    """Return the entries by tag; of several with one tag the first."""
    found: dict[int, int] = {}
    whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
    for tag, value in _ENTRY.iter_unpack(whole):
        if tag == 0:
            break
        found.setdefault(tag, value)
    return found


def symbol_count(
    tags: Mapping[int, int],
    file_offset: Callable[[int], int | None],
    read: Callable[[int, int], bytes],
    most: int,
) -> int:
    """Return how many symbols there are: only the hash table tells.

    Args:
        tags: Entries of the dynamic segment.
        file_offset: From a virtual address.
        read: Bytes at an offset, of a size.
        most: At most so many are walked.

    Raises:
        ForeignDataError: No hash table, or one that is off.
    """
    if HASH in tags:
        at = _offset(file_offset, tags[HASH])
        return int(struct.unpack("<II", read(at, 8))[1])
    if GNU_HASH not in tags:
        raise ForeignDataError("The ELF file has no hash table to count its symbols by.")
    at = _offset(file_offset, tags[GNU_HASH])
    buckets, first, bloom, _ = struct.unpack("<IIII", read(at, 16))
    if buckets > most or bloom > most:
        raise ForeignDataError("The hash table of the ELF file is too large.")
    at += 16 + 8 * bloom
    last = max(struct.unpack(f"<{buckets}I", read(at, 4 * buckets)), default=0)
    if last < first:
        return int(first)
    at += 4 * buckets + 4 * (last - first)
    for _ in range(most):  # the last chain ends at an odd value
        last += 1
        if read(at, 4)[0] & 1:
            return int(last)
        at += 4
    raise ForeignDataError("The hash table of the ELF file has no end.")


def build_id(note: bytes) -> str:
    """Return the GNU build id among notes, in hex, or ""."""
    position = 0
    while position + 12 <= len(note):
        name_size, size, kind = struct.unpack_from("<III", note, position)
        name = position + 12
        start = name + (name_size + 3 & ~3)
        if kind == _BUILD_ID and note[name : name + 4] == b"GNU\0" and size <= 64:
            return note[start : start + size].hex()
        position = start + (size + 3 & ~3)
    return ""


def _offset(file_offset: Callable[[int], int | None], address: int) -> int:
    found = file_offset(address)
    if found is None:
        raise ForeignDataError("The hash table of the ELF file lies outside it.")
    return found
