"""A traced function of a vendor's driver library: one row of the function table."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.model.abi import Action, Family, Size, Slot, StreamDefault


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One exported symbol and what the BPF programs do with a call of it.

    Arguments are numbered from 1; 0 says "none". A stream argument of 15 says
    "inside the CUlaunchConfig that argument 1 points to".
    """

    symbol: str
    slot: Slot
    action: Action = Action.NONE
    size: Size = Size.NONE
    size_arg: int = 0
    """Where the size is; for context actions the device, for GRAPH_ADD_NODE the parameters."""
    size_log2: int = 0
    """Shift of the size argument: 2 for a count of 32-bit elements."""
    stream_arg: int = 0
    stream_default: StreamDefault = StreamDefault.NONE
    context_arg: int = 0
    pointer_arg: int = 0
    """The argument that is, or points to, the handle the action is about."""
    family: Family = Family.DEVICE
    submits: bool = False
    """The call puts work on the GPU."""
    blocks: bool = False
    """The whole duration of the call is waiting for the GPU."""
    returns: bool = True
    """A return probe is attached too; without it neither errors nor durations are known."""
    core: bool = False
    """Attached first, and the only ones in perf mode (at most 40)."""
    hot: bool = False
    """In a link of its own, so that it can be dropped alone."""
