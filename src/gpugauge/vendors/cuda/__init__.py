"""NVIDIA's driver library: what is traced in it, one row an exported name.

cuCtxGetDevice, cuDevicePrimaryCtxGetState, cuCtxGetCurrent and
cuDeviceGetAttribute are never rows: runtimes call them at every step (a million
times in three seconds of a small training loop).
"""

from __future__ import annotations

from gpugauge.vendors.cuda.context import CHECKPOINT, CONTEXT
from gpugauge.vendors.cuda.copy import COPY
from gpugauge.vendors.cuda.graph import GRAPH, GRAPH_UPLOAD
from gpugauge.vendors.cuda.launch import GRAPH_LAUNCH, LAUNCH
from gpugauge.vendors.cuda.memory import MEMORY
from gpugauge.vendors.cuda.memset import SET
from gpugauge.vendors.cuda.names import NAMES
from gpugauge.vendors.cuda.rows import Rows
from gpugauge.vendors.cuda.stream import CAPTURE, EVENT, STREAM
from gpugauge.vendors.cuda.submit import SUBMIT
from gpugauge.vendors.cuda.synchronize import POLL, SYNCHRONIZE

CUDA_FUNCTIONS: Rows = (
    *LAUNCH,
    *GRAPH_LAUNCH,
    *SYNCHRONIZE,
    *POLL,
    *COPY,
    *SET,
    *MEMORY,
    *CONTEXT,
    *CHECKPOINT,
    *STREAM,
    *EVENT,
    *CAPTURE,
    *GRAPH,
    *GRAPH_UPLOAD,
    *SUBMIT,
    *NAMES,
)
"""Row numbers are positions here, counted from 1: new families go to the end."""
