"""Allocations and frees, by family of requested memory.

Families are kept apart only where their addresses are: a free does not say
how its memory was allocated, so cuMemFree stands for device, managed and pool
memory alike.
"""

from __future__ import annotations

from dataclasses import replace

from gpugauge.model.abi import Action, Family, Size, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, ptsz, under


def _allocate(symbol: str, family: Family, *, core: bool = False) -> Function:
    """Return (*pointer, bytes, ...)."""
    return Function(
        symbol=symbol,
        slot=Slot.ALLOCATE,
        action=Action.ALLOCATE,
        size=Size.ARG,
        size_arg=2,
        pointer_arg=1,
        family=family,
        core=core,
    )


def _free(symbol: str, family: Family, *, core: bool = False) -> Function:
    """Return (pointer, ...)."""
    return Function(
        symbol=symbol,
        slot=Slot.FREE,
        action=Action.FREE,
        pointer_arg=1,
        family=family,
        core=core,
    )


def _stream_ordered(row: Function, stream_arg: int) -> Rows:
    return ptsz(replace(row, stream_arg=stream_arg, submits=True))


def _array(symbol: str, size: Size) -> Function:
    """Return (*array, *descriptor, ...)."""
    return replace(_allocate(symbol, Family.ARRAY), size=size)


DEVICE: Rows = (
    _allocate("cuMemAlloc_v2", Family.DEVICE, core=True),
    replace(_allocate("cuMemAllocPitch_v2", Family.DEVICE), size=Size.PITCH),
    _allocate("cuMemAllocManaged", Family.MANAGED, core=True),
    _free("cuMemFree_v2", Family.DEVICE, core=True),
)

# Device addresses had 32 bits before CUDA 3.2: the *pointer that comes back is
# 4 bytes long, so these are counted and not followed by address.
# Driver 580 answers CUDA_ERROR_INVALID_CONTEXT to them in a context made by the
# newer names, so they are hardly met.
DEVICE_BEFORE_3_2: Rows = (
    Function(symbol="cuMemAlloc", slot=Slot.ALLOCATE, size=Size.ARG32, size_arg=2),
    Function(symbol="cuMemAllocPitch", slot=Slot.ALLOCATE, size=Size.UNKNOWN),
    Function(symbol="cuMemFree", slot=Slot.FREE),
)

POOL: Rows = (
    *_stream_ordered(_allocate("cuMemAllocAsync", Family.POOL, core=True), 3),
    *_stream_ordered(_allocate("cuMemAllocFromPoolAsync", Family.POOL), 4),
    *_stream_ordered(_free("cuMemFreeAsync", Family.POOL, core=True), 2),
)

HOST: Rows = (
    _allocate("cuMemAllocHost_v2", Family.HOST),
    replace(_allocate("cuMemAllocHost", Family.HOST), size=Size.ARG32),
    _allocate("cuMemHostAlloc", Family.HOST),
    _free("cuMemFreeHost", Family.HOST),
    *under(
        replace(
            _allocate("cuMemHostRegister_v2", Family.HOST_REGISTERED), action=Action.HOST_REGISTER
        ),
        "cuMemHostRegister",
    ),
    _free("cuMemHostUnregister", Family.HOST_REGISTERED),
)

ARRAYS: Rows = (
    _array("cuArrayCreate_v2", Size.ARRAY),
    _array("cuArray3DCreate_v2", Size.ARRAY_3D),
    # All levels together are more than level 0, which the descriptor gives:
    # (*array, *descriptor, levels).
    _array("cuMipmappedArrayCreate", Size.ARRAY_3D),
    *(
        replace(row, size_arg=0)
        for row in under(_array("cuArrayCreate", Size.UNKNOWN), "cuArray3DCreate")
    ),
    *under(_free("cuArrayDestroy", Family.ARRAY), "cuMipmappedArrayDestroy"),
)


def _virtual(symbol: str, slot: Slot, action: Action) -> Function:
    return Function(symbol=symbol, slot=slot, action=action, pointer_arg=1, family=Family.VIRTUAL)


VIRTUAL: Rows = (
    replace(_virtual("cuMemCreate", Slot.ALLOCATE, Action.MEM_CREATE), size=Size.ARG, size_arg=2),
    _virtual("cuMemRelease", Slot.FREE, Action.MEM_RELEASE),
    # Mapping moves no bytes: the row's bytes are those of the handle.
    _virtual("cuMemMap", Slot.OTHER, Action.MEM_MAP),
    _virtual("cuMemUnmap", Slot.OTHER, Action.MEM_UNMAP),
    _virtual("cuMemRetainAllocationHandle", Slot.OTHER, Action.MEM_RETAIN),
    _virtual("cuMemImportFromShareableHandle", Slot.OTHER, Action.MEM_IMPORT),
)

MEMORY: Rows = (*DEVICE, *DEVICE_BEFORE_3_2, *POOL, *HOST, *ARRAYS, *VIRTUAL)
