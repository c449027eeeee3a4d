"""Copies: linear, to and from arrays, 2D, 3D, between devices, in batches.

Whether a call blocks follows the "API synchronization behavior" page of the
CUDA driver API: a synchronous copy waits on the host, except device to device,
for which no host-side synchronization is performed; cuMemcpyPeer is
asynchronous with respect to the host. Those are judged like asynchronous
copies, by duration above the issue cost.

Seen on an H200 with driver 580.159.04, behind 48 ms of work: HtoD, DtoH and
HtoA returned after 48 ms, DtoD, DtoA, AtoD, AtoA and Peer in under 0.1 ms;
cuMemcpy did either, by its pointers.
"""

from __future__ import annotations

from dataclasses import replace

from gpugauge.model.abi import Size, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, legacy, ptds, ptsz

HTOD, DTOH, DTOD = Slot.COPY_HTOD, Slot.COPY_DTOH, Slot.COPY_DTOD


def _copy(
    symbol: str,
    slot: Slot,
    bytes_arg: int,
    *,
    stream_arg: int = 0,
    blocks: bool = False,
    core: bool = False,
) -> Function:
    return Function(
        symbol=symbol,
        slot=slot,
        size=Size.ARG,
        size_arg=bytes_arg,
        stream_arg=stream_arg,
        submits=True,
        blocks=blocks,
        core=core,
    )


def _struct(symbol: str, size: Size, *, stream_arg: int = 0) -> Function:
    """Return a copy that a struct at argument 1 describes, its direction too."""
    return Function(
        symbol=symbol,
        slot=Slot.COPY_UNKNOWN,
        size=size,
        size_arg=1,
        stream_arg=stream_arg,
        submits=True,
        blocks=stream_arg == 0,
    )


def _before_3_2(row: Function, symbol: str) -> Rows:
    """Return the row of the name from before CUDA 3.2: sizes of 32 bits, other structs."""
    if row.size is Size.ARG:
        return legacy(replace(row, symbol=symbol, size=Size.ARG32, core=False))
    return legacy(replace(row, symbol=symbol, size=Size.UNKNOWN, size_arg=0, core=False))


SYNCHRONOUS = (
    _copy("cuMemcpyHtoD", HTOD, 3, blocks=True, core=True),
    _copy("cuMemcpyDtoH", DTOH, 3, blocks=True, core=True),
    _copy("cuMemcpyDtoD", DTOD, 3),
    _copy("cuMemcpyDtoA", DTOD, 4),
    _copy("cuMemcpyAtoD", DTOD, 4),
    _copy("cuMemcpyHtoA", HTOD, 4, blocks=True),
    _copy("cuMemcpyAtoH", DTOH, 4, blocks=True),
    _copy("cuMemcpyAtoA", DTOD, 5),
    _struct("cuMemcpy2D", Size.MEMCPY_2D),
    _struct("cuMemcpy2DUnaligned", Size.MEMCPY_2D),
    _struct("cuMemcpy3D", Size.MEMCPY_3D),
)
ASYNCHRONOUS = (
    _copy("cuMemcpyHtoDAsync", HTOD, 3, stream_arg=4, core=True),
    _copy("cuMemcpyDtoHAsync", DTOH, 3, stream_arg=4, core=True),
    _copy("cuMemcpyDtoDAsync", DTOD, 3, stream_arg=4, core=True),
    _copy("cuMemcpyHtoAAsync", HTOD, 4, stream_arg=5),
    _copy("cuMemcpyAtoHAsync", DTOH, 4, stream_arg=5),
    _struct("cuMemcpy2DAsync", Size.MEMCPY_2D, stream_arg=2),
    _struct("cuMemcpy3DAsync", Size.MEMCPY_3D, stream_arg=2),
)
"""Both were redefined in CUDA 3.2: `_v2` is what programs call since."""

# The destination's context is argument 2, the source's argument 4.
_PEER = replace(_copy("cuMemcpyPeer", Slot.COPY_PEER, 5), context_arg=2)
_PEER_3D = replace(_struct("cuMemcpy3DPeer", Size.MEMCPY_3D), slot=Slot.COPY_PEER)

# Directions follow from the pointers, which the probes cannot tell.
UNIFIED: Rows = (
    *ptds(_copy("cuMemcpy", Slot.COPY_UNKNOWN, 3, blocks=True, core=True)),
    *ptsz(_copy("cuMemcpyAsync", Slot.COPY_UNKNOWN, 3, stream_arg=4, core=True)),
    *ptds((_PEER, _PEER_3D)),
    *ptsz(
        (
            replace(_PEER, symbol="cuMemcpyPeerAsync", stream_arg=6),
            replace(_PEER_3D, symbol="cuMemcpy3DPeerAsync", stream_arg=2, blocks=False),
        )
    ),
    # (dst, src, bytes, attributes, stream), CUDA 13.2.
    *ptsz(_copy("cuMemcpyWithAttributesAsync", Slot.COPY_UNKNOWN, 3, stream_arg=5)),
)


def _batch(symbol: str, stream_arg: int) -> Function:
    """Return a copy of many ranges: (dsts, srcs, sizes, count, ...)."""
    return Function(
        symbol=symbol,
        slot=Slot.COPY_UNKNOWN,
        size=Size.BATCH,
        size_arg=3,
        stream_arg=stream_arg,
        submits=True,
    )


def _batch_3d(symbol: str, stream_arg: int) -> Function:
    return replace(_batch(symbol, stream_arg), size=Size.BATCH_3D, size_arg=0)


BATCH: Rows = ptsz(
    (
        # CUDA 12.8 passed a *failIdx before the stream, `_v2` of 13.0 does not.
        _batch("cuMemcpyBatchAsync", 9),
        _batch("cuMemcpyBatchAsync_v2", 8),
        _batch_3d("cuMemcpy3DBatchAsync", 5),
        _batch_3d("cuMemcpy3DBatchAsync_v2", 4),
        # (operation, flags, stream), CUDA 13.2.
        _batch_3d("cuMemcpy3DWithAttributesAsync", 3),
    )
)

COPY: Rows = (
    *(r for row in SYNCHRONOUS for r in ptds(replace(row, symbol=row.symbol + "_v2"))),
    *(r for row in ASYNCHRONOUS for r in ptsz(replace(row, symbol=row.symbol + "_v2"))),
    *UNIFIED,
    *BATCH,
    *(r for row in (*SYNCHRONOUS, *ASYNCHRONOUS) for r in _before_3_2(row, row.symbol)),
)
