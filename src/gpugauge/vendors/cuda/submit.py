"""Everything else that puts work into a stream: needed to know when the GPU is idle.

A submission that is not seen would make idle time out of busy time, so this
family errs on the side of more rows.
"""

from __future__ import annotations

from gpugauge.model.abi import Size, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, legacy, ptds, ptsz


def _submit(symbol: str, stream_arg: int, *, bytes_arg: int = 0) -> Function:
    return Function(
        symbol=symbol,
        slot=Slot.SUBMIT_OTHER,
        size=Size.ARG if bytes_arg else Size.NONE,
        size_arg=bytes_arg,
        stream_arg=stream_arg,
        submits=True,
    )


SUBMIT: Rows = (
    *ptsz(
        (
            _submit("cuLaunchHostFunc", 1),
            _submit("cuLaunchHostFunc_v2", 1),  # CUDA 13.1
            _submit("cuStreamAddCallback", 1),
            _submit("cuStreamWaitValue32", 1),
            _submit("cuStreamWaitValue32_v2", 1),
            _submit("cuStreamWaitValue64", 1),
            _submit("cuStreamWaitValue64_v2", 1),
            _submit("cuStreamWriteValue32", 1),
            _submit("cuStreamWriteValue32_v2", 1),
            _submit("cuStreamWriteValue64", 1),
            _submit("cuStreamWriteValue64_v2", 1),
            _submit("cuStreamBatchMemOp", 1),
            _submit("cuStreamBatchMemOp_v2", 1),
            _submit("cuStreamAttachMemAsync", 1),
            # (pointer, bytes, device, stream); in _v2 a CUmemLocation of 8 bytes,
            # passed in one register, and flags stand before the stream.
            _submit("cuMemPrefetchAsync", 4, bytes_arg=2),
            _submit("cuMemPrefetchAsync_v2", 5, bytes_arg=2),
            _submit("cuMemPrefetchBatchAsync", 8),
            _submit("cuMemDiscardBatchAsync", 5),
            _submit("cuMemDiscardAndPrefetchBatchAsync", 8),
            _submit("cuMemBatchDecompressAsync", 5),
            _submit("cuMemMapArrayAsync", 3),
            _submit("cuSignalExternalSemaphoresAsync", 4),
            _submit("cuWaitExternalSemaphoresAsync", 4),
            _submit("cuGraphicsMapResources", 3),
            _submit("cuGraphicsUnmapResources", 3),
        )
    ),
    # Graphics interoperability from before CUDA 4.0: (*pointer, *size, buffer[, stream]).
    *ptsz(_submit("cuGLMapBufferObjectAsync_v2", 4)),
    *legacy(_submit("cuGLMapBufferObjectAsync", 4)),
    *legacy(_submit("cuGLUnmapBufferObjectAsync", 2)),
    *ptds(_submit("cuGLMapBufferObject_v2", 0)),
    *legacy(_submit("cuGLMapBufferObject", 0), "cuGLUnmapBufferObject"),
)
