"""Streams, events and stream capture: no demand of their own, they explain the rest."""

from __future__ import annotations

from gpugauge.model.abi import Action, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, ptsz, under


def _stream(
    symbol: str,
    action: Action,
    *,
    pointer_arg: int = 0,
    stream_arg: int = 0,
    core: bool = False,
) -> Function:
    return Function(
        symbol=symbol,
        slot=Slot.OTHER,
        action=action,
        pointer_arg=pointer_arg,
        stream_arg=stream_arg,
        core=core,
    )


STREAM: Rows = (
    *under(
        _stream("cuStreamCreate", Action.STREAM_CREATE, pointer_arg=1), "cuStreamCreateWithPriority"
    ),
    # (*stream, green context, flags, priority)
    _stream("cuGreenCtxStreamCreate", Action.STREAM_CREATE_GREEN, pointer_arg=1),
    *under(
        _stream("cuStreamDestroy_v2", Action.STREAM_DESTROY, pointer_arg=1, stream_arg=1),
        "cuStreamDestroy",
    ),
)

EVENT: Rows = (
    *ptsz(
        under(
            _stream("cuEventRecord", Action.EVENT_RECORD, pointer_arg=1, stream_arg=2),
            "cuEventRecordWithFlags",
        )
    ),
    *under(_stream("cuEventDestroy_v2", Action.EVENT_DESTROY, pointer_arg=1), "cuEventDestroy"),
)

CAPTURE: Rows = (
    *ptsz(
        (
            _stream("cuStreamBeginCapture_v2", Action.CAPTURE_BEGIN, stream_arg=1, core=True),
            _stream("cuStreamBeginCapture", Action.CAPTURE_BEGIN, stream_arg=1),
            # The launches are added to the graph at argument 2; it comes back at the end.
            _stream("cuStreamBeginCaptureToGraph", Action.CAPTURE_BEGIN, stream_arg=1),
            # (stream, mode, graph, ...), CUDA 13.3.
            _stream("cuStreamBeginRecaptureToGraph", Action.CAPTURE_BEGIN, stream_arg=1),
            _stream(
                "cuStreamEndCapture",
                Action.CAPTURE_END,
                stream_arg=1,
                pointer_arg=2,
                core=True,
            ),
        )
    ),
)
