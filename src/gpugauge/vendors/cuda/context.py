"""Contexts, and which device they are on.

For every action that names a device, `size_arg` is the position of that
argument (a CUdevice, the device's ordinal in its process); there is no size.
"""

from __future__ import annotations

from dataclasses import replace

from gpugauge.model.abi import Action, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, under


def _context(
    symbol: str, action: Action, *, device_arg: int = 0, pointer_arg: int = 1, core: bool = False
) -> Function:
    return Function(
        symbol=symbol,
        slot=Slot.CONTEXT,
        action=action,
        size_arg=device_arg,
        pointer_arg=pointer_arg,
        core=core,
    )


CONTEXT: Rows = (
    # (*context, flags, device): base and _v2 alike, and the graphics twins.
    _context("cuCtxCreate_v2", Action.CTX_CREATE, device_arg=3, core=True),
    *under(
        _context("cuCtxCreate", Action.CTX_CREATE, device_arg=3),
        "cuGLCtxCreate",
        "cuGLCtxCreate_v2",
        "cuVDPAUCtxCreate",
        "cuVDPAUCtxCreate_v2",
    ),
    # (*context, *affinity, count, flags, device)
    _context("cuCtxCreate_v3", Action.CTX_CREATE, device_arg=5),
    # (*context, *parameters, flags, device)
    _context("cuCtxCreate_v4", Action.CTX_CREATE, device_arg=4, core=True),
    *under(_context("cuCtxDestroy_v2", Action.CTX_DESTROY), "cuCtxDestroy"),
    _context("cuCtxSetCurrent", Action.CTX_SET, core=True),
    _context("cuCtxPushCurrent_v2", Action.CTX_PUSH, core=True),
    _context("cuCtxPushCurrent", Action.CTX_PUSH),
    _context("cuCtxPopCurrent_v2", Action.CTX_POP, core=True),
    _context("cuCtxPopCurrent", Action.CTX_POP),
    _context("cuDevicePrimaryCtxRetain", Action.PRIMARY_RETAIN, device_arg=2, core=True),
    *under(
        _context(
            "cuDevicePrimaryCtxRelease_v2", Action.PRIMARY_RELEASE, device_arg=1, pointer_arg=0
        ),
        "cuDevicePrimaryCtxRelease",
    ),
    *under(
        _context("cuDevicePrimaryCtxReset_v2", Action.PRIMARY_RESET, device_arg=1, pointer_arg=0),
        "cuDevicePrimaryCtxReset",
    ),
    _context("cuGreenCtxCreate", Action.GREEN_CREATE, device_arg=3),
    _context("cuGreenCtxDestroy", Action.GREEN_DESTROY),
    # (*context, green context)
    _context("cuCtxFromGreenCtx", Action.GREEN_TO_CTX),
    # (*uuid, device). The first name answers the parent under MIG, _v2 the instance.
    _context("cuDeviceGetUuid", Action.DEVICE_UUID, device_arg=2, core=True),
    _context("cuDeviceGetUuid_v2", Action.DEVICE_UUID_V2, device_arg=2, core=True),
)


# Entry is enough, and must be: probes have to be off before the dump that follows.
CHECKPOINT: Rows = tuple(
    replace(row, slot=Slot.OTHER, returns=False)
    for row in (
        _context("cuCheckpointProcessLock", Action.CHECKPOINT_LOCK, pointer_arg=0, core=True),
        _context("cuCheckpointProcessUnlock", Action.CHECKPOINT_UNLOCK, pointer_arg=0, core=True),
    )
)
