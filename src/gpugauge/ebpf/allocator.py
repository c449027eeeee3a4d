"""glibc's allocator, told to give memory back.

By default it makes a heap for each thread, and learns from the first large
buffer that is freed to keep all such memory for ever. The agent has a dozen
threads and reads maps and renders pages in large buffers, once a second.
"""

from __future__ import annotations

import ctypes

KIB = 1024
# malloc.h of glibc, mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
SETTINGS = {_ARENA_MAX: 1, _MMAP_THRESHOLD: 128 * KIB, _TRIM_THRESHOLD: 128 * KIB}
"""One heap, and glibc's own first thresholds for good: what is larger is unmapped when freed."""


def keep_small() -> bool:
    """Set the allocator up; before threads are started. False where there is no mallopt (musl)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(name, value) == 1 for name, value in SETTINGS.items())
