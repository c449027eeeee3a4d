"""Calls that wait for the GPU, and calls that ask whether it is done."""

from __future__ import annotations

from gpugauge.model.abi import Action, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, ptsz

SYNCHRONIZE: Rows = (
    *ptsz(
        Function(
            symbol="cuStreamSynchronize",
            slot=Slot.SYNCHRONIZE,
            action=Action.STREAM_SYNC,
            stream_arg=1,
            blocks=True,
            core=True,
        )
    ),
    # Waits for the context that is current on the thread.
    Function(
        symbol="cuCtxSynchronize",
        slot=Slot.SYNCHRONIZE,
        action=Action.CTX_SYNC,
        blocks=True,
        core=True,
    ),
    # Names its context: what the runtime of CUDA 13 calls.
    Function(
        symbol="cuCtxSynchronize_v2",
        slot=Slot.SYNCHRONIZE,
        action=Action.CTX_SYNC,
        context_arg=1,
        blocks=True,
        core=True,
    ),
    Function(
        symbol="cuEventSynchronize",
        slot=Slot.SYNCHRONIZE,
        action=Action.EVENT_SYNC,
        pointer_arg=1,
        blocks=True,
        core=True,
    ),
)

# Counted as POLL_READY or POLL_NOT_READY by the answer.
POLL: Rows = (
    *ptsz(
        Function(
            symbol="cuStreamQuery",
            slot=Slot.POLL_READY,
            action=Action.STREAM_QUERY,
            stream_arg=1,
            core=True,
        )
    ),
    Function(
        symbol="cuEventQuery",
        slot=Slot.POLL_READY,
        action=Action.EVENT_QUERY,
        pointer_arg=1,
        core=True,
    ),
)
