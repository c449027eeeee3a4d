"""Sets of device memory.

None of them blocks by nature: the "API synchronization behavior" page of the
CUDA driver API says that memset functions are asynchronous with respect to the
host, except for pinned host memory and unified memory, which a call does not
show. Seen on an H200 with driver 580.159.04, behind 48 ms of work: 0.02 ms for
device memory, 48 ms for pinned and for managed memory.
"""

from __future__ import annotations

from dataclasses import replace

from gpugauge.model.abi import Size, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, legacy, ptds, ptsz

WIDTHS_LOG2 = {8: 0, 16: 1, 32: 2}
"""Element width in bits -> log2 of its bytes."""


def _linear(bits: int) -> Function:
    """Return (dst, value, count): bytes = count x element."""
    return Function(
        symbol=f"cuMemsetD{bits}",
        slot=Slot.SET,
        size=Size.ARG,
        size_arg=3,
        size_log2=WIDTHS_LOG2[bits],
        submits=True,
    )


def _pitched(bits: int) -> Function:
    """Return (dst, pitch, value, width, height): width in elements, height in rows."""
    return replace(_linear(bits), symbol=f"cuMemsetD2D{bits}", size=Size.TWO_ARGS, size_arg=4)


def _family(row: Function, stream_arg: int, *, core: bool) -> Rows:
    before_3_2 = (
        replace(row, size=Size.ARG32)
        if row.size is Size.ARG
        else replace(row, size=Size.UNKNOWN, size_arg=0, size_log2=0)
    )
    return (
        *ptds(replace(row, symbol=row.symbol + "_v2")),
        *ptsz(replace(row, symbol=row.symbol + "Async", stream_arg=stream_arg, core=core)),
        *legacy(before_3_2),
    )


SET: Rows = tuple(
    row
    for bits in WIDTHS_LOG2
    for family in (
        _family(_linear(bits), 4, core=bits in (8, 32)),
        _family(_pitched(bits), 6, core=False),
    )
    for row in family
)
