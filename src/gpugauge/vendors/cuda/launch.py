"""Launches of GPU kernels and of graphs."""

from __future__ import annotations

from gpugauge.model.abi import Action, Size, Slot
from gpugauge.model.function import Function
from gpugauge.vendors.cuda.rows import Rows, legacy, ptsz

IN_CONFIG = 15
"""Stream "argument": inside the CUlaunchConfig that argument 1 points to."""

LAUNCH: Rows = (
    *ptsz(
        Function(
            symbol="cuLaunchKernel",
            slot=Slot.LAUNCH,
            size=Size.LAUNCH_ARGS,
            stream_arg=9,
            submits=True,
            core=True,
            hot=True,
        )
    ),
    *ptsz(
        Function(
            symbol="cuLaunchKernelEx",
            slot=Slot.LAUNCH,
            size=Size.LAUNCH_CONFIG,
            size_arg=1,
            stream_arg=IN_CONFIG,
            submits=True,
            core=True,
            hot=True,
        )
    ),
    *ptsz(
        Function(
            symbol="cuLaunchCooperativeKernel",
            slot=Slot.LAUNCH,
            size=Size.LAUNCH_ARGS,
            stream_arg=9,
            submits=True,
            core=True,
            hot=True,
        )
    ),
    # One call launches on several devices, each on a stream of its own in the
    # list: no single stream, so the row has none and the programs see MIXED.
    Function(
        symbol="cuLaunchCooperativeKernelMultiDevice",
        slot=Slot.LAUNCH,
        submits=True,
        hot=True,
    ),
    # From before CUDA 4.0: the block shape was set by an earlier call, so the
    # number of threads is unknown here.
    *legacy(Function(symbol="cuLaunch", slot=Slot.LAUNCH, submits=True, hot=True), "cuLaunchGrid"),
    *legacy(
        Function(symbol="cuLaunchGridAsync", slot=Slot.LAUNCH, stream_arg=4, submits=True, hot=True)
    ),
)

GRAPH_LAUNCH: Rows = ptsz(
    Function(
        symbol="cuGraphLaunch",
        slot=Slot.GRAPH_LAUNCH,
        action=Action.GRAPH_LAUNCH,
        pointer_arg=1,
        stream_arg=2,
        submits=True,
        core=True,
        hot=True,
    )
)
