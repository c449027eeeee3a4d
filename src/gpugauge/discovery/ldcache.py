"""Where the loader of the host finds a library: a bounded parser of /etc/ld.so.cache.

Format: `sysdeps/generic/dl-cache.h` of glibc. The present form begins with
`glibc-ld.so.cache1.1`; an older form may stand before it in the same file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

CACHE_LIMIT_BYTES = 16 * 1024 * 1024
ENTRIES_LIMIT = 65536
PATH_LIMIT_BYTES = 4096

_OLD_MAGIC = b"ld.so-1.7.0"
_OLD_HEADER = struct.Struct("<12sI")
_OLD_ENTRY_BYTES = 12
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sII5I")
_ENTRY = struct.Struct("<iIIIQ")
_ELF_KIND = 0xFF
_ELF = 1
_ABI = 0xFF00
_X86_64 = 0x0300


def library_paths(cache: bytes, is_library: Callable[[str], bool]) -> tuple[str, ...]:
    """Paths of the 64-bit x86 libraries with a fitting name, in the cache's order.

    Args:
        cache: The file's content. Malformed parts are passed over.
        is_library: Whether a file name is wanted.
    """
    start = 0
    if cache.startswith(_OLD_MAGIC) and len(cache) >= _OLD_HEADER.size:
        count = min(_OLD_HEADER.unpack_from(cache)[1], ENTRIES_LIMIT)
        start = -(-(_OLD_HEADER.size + count * _OLD_ENTRY_BYTES) // 8) * 8
    if not cache.startswith(_MAGIC, start) or len(cache) < start + _HEADER.size:
        return ()
    count = min(_HEADER.unpack_from(cache, start)[1], ENTRIES_LIMIT)
    paths: dict[str, None] = {}
    for index in range(count):
        at = start + _HEADER.size + index * _ENTRY.size
        if at + _ENTRY.size > len(cache):
            break
        flags, key, value, _, _ = _ENTRY.unpack_from(cache, at)
        if flags & _ELF_KIND not in (_ELF, 3) or flags & _ABI != _X86_64:
            continue
        if is_library(_text(cache, start + key)):
            paths[_text(cache, start + value)] = None
    return tuple(path for path in paths if path.startswith("/"))


def _text(cache: bytes, at: int) -> str:
    end = cache.find(b"\0", at, at + PATH_LIMIT_BYTES)
    return cache[at:end].decode("utf-8", "surrogateescape") if end >= 0 else ""
