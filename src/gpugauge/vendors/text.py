"""The function table for people: `gpugauge functions` and docs/functions.md."""

from __future__ import annotations

from gpugauge.model.abi import Action, Family, Size, Slot, StreamDefault
from gpugauge.model.function import Function
from gpugauge.vendors import Vendor

HEADER = ("row", "symbol", "operation", "recorded", "probes", "set")
_STREAM_IN_CONFIG = 15

_SIZES = {
    Size.TWO_ARGS: "width x height",
    Size.MEMCPY_2D: "bytes and direction of CUDA_MEMCPY2D",
    Size.MEMCPY_3D: "bytes and direction of CUDA_MEMCPY3D",
    Size.LAUNCH_ARGS: "threads",
    Size.LAUNCH_CONFIG: "threads, in CUlaunchConfig",
    Size.PITCH: "pitch as returned x height",
    Size.ARRAY: "bytes of the array descriptor",
    Size.ARRAY_3D: "bytes of the 3D array descriptor",
    Size.BATCH: "sum of the batch's sizes",
    Size.BATCH_3D: "size unknown",
    Size.UNKNOWN: "size unknown",
}


def operation_text(function: Function) -> str:
    """Return what a call is counted as: `copy htod`."""
    if function.slot is Slot.POLL_READY:
        return "poll"
    return function.slot.name.lower().replace("_", " ")


def recorded_text(function: Function) -> str:
    """Return what is recorded of a call, as one phrase."""
    parts = ["calls"]
    if function.returns:
        parts.append("errors, duration")
    if function.blocks:
        parts.append("all of it blocked")
    if function.size in (Size.ARG, Size.ARG32):
        element = f" x {1 << function.size_log2}" if function.size_log2 else ""
        width = ", 32 bits" if function.size is Size.ARG32 else ""
        parts.append(f"bytes (argument {function.size_arg}{element}{width})")
    elif function.size is not Size.NONE:
        parts.append(_SIZES[function.size])
    if function.stream_arg == _STREAM_IN_CONFIG:
        parts.append("stream, in CUlaunchConfig")
    elif function.stream_arg:
        parts.append(f"stream (argument {function.stream_arg})")
    elif function.stream_default is StreamDefault.LEGACY:
        parts.append("legacy stream")
    elif function.stream_default is StreamDefault.PER_THREAD:
        parts.append("per-thread stream")
    if function.context_arg:
        parts.append(f"context (argument {function.context_arg})")
    if function.action in (Action.ALLOCATE, Action.FREE, Action.MEM_CREATE, Action.HOST_REGISTER):
        family = Family(function.family).name.lower().replace("_", " ")
        parts.append(f"address ({family} memory)")
    elif function.action is not Action.NONE:
        parts.append(function.action.name.lower().replace("_", " "))
    return "; ".join(parts)


def cells(row: int, function: Function) -> tuple[str, ...]:
    """Return the row as texts, one a column of HEADER."""
    return (
        str(row),
        function.symbol,
        operation_text(function),
        recorded_text(function),
        "entry + return" if function.returns else "entry",
        ", ".join(name for name in ("core", "hot") if getattr(function, name)),
    )


def rows_text(vendor: Vendor) -> str:
    """Return the table as aligned lines for a terminal."""
    table = [HEADER, *(cells(row, function) for row, function in vendor.numbered())]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
