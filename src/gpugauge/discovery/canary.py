"""Is a file already probed by this agent, under another name?

Two overlay mounts over one lower file have two devices and inodes in
/proc/PID/maps and one inode in Linux's table of uprobes: attached twice, every
call counts twice. Linux writes breakpoints into each private mapping of a probed
file that is or may become executable (`valid_vma` in `kernel/events/uprobes.c`),
and never into the file. So a byte that is a breakpoint in such a mapping and
another byte in the file is a probe. A mapping that is only readable is enough:
it is never executed, and no side-band record tells of it.

The byte looked at is the site of a function that nobody else has a reason to
probe, and that every link of ours includes: the canary.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Collection, Iterable, Sequence

BREAKPOINT = 0xCC
PREFERRED = ("cuProfilerStop", "cuCoredumpGetAttributeGlobal", "cuGetErrorString")
"""Functions that are called seldom or never, and that nobody has a reason to probe."""


def choose(
    exported: Iterable[str], traced: Collection[str], preferred: Sequence[str] = ()
) -> tuple[str, ...]:
    """Order the exported functions by how well they serve as a canary.

    The order depends on the names alone, so that one file gives one canary
    under whichever name it is met.

    Args:
        exported: All functions of the library.
        traced: Those that are probed anyway, here or by others: never chosen.
        preferred: Seldom-called ones, best first.

    Returns:
        Candidates, best first; the first with a legal site is the canary.
    """
    free = set(exported).difference(traced)
    first = [name for name in preferred if name in free]
    return (*first, *sorted(free.difference(first)))


def is_probed(descriptor: int, file_offset: int) -> bool:
    """Whether Linux holds a breakpoint at this place of a file.

    Call it where a hang or a SIGBUS is survived: in the child that reads foreign files.

    Args:
        descriptor: An open regular file.
        file_offset: Of the canary's site.

    Raises:
        OSError: The file cannot be mapped, or is shorter.
    """
    raw = os.pread(descriptor, 1, file_offset)
    if not raw:
        raise OSError(f"the file ends before {file_offset}")
    start = file_offset - file_offset % mmap.ALLOCATIONGRANULARITY
    with mmap.mmap(
        descriptor,
        file_offset - start + 1,
        flags=mmap.MAP_PRIVATE,
        prot=mmap.PROT_READ,
        offset=start,
    ) as view:
        return view[file_offset - start] == BREAKPOINT != raw[0]
