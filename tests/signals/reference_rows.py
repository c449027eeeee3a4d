"""What the reference keeps: which function is what, and rows of contexts, streams and memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gpugauge.model.abi import PLACE_UNKNOWN, Family, Slot
from tests.signals.calls import COPIES, FREES, LAUNCHES

UNKNOWN = PLACE_UNKNOWN
DEPTH = 8
NOT_READY = 600
MIXED = "mixed"
KEEPS_CAPTURE = (1, 400, 908)
"""Invalid value, invalid handle, wrong thread: the capture goes on."""

Stream = tuple[Any, ...] | str | None

FAMILY = {
    "device": Family.DEVICE,
    "managed": Family.MANAGED,
    "pool": Family.POOL,
    "host": Family.HOST,
    "registered": Family.HOST_REGISTERED,
    "array": Family.ARRAY,
    "virtual": Family.VIRTUAL,
}
SPACE = {Family.MANAGED: Family.DEVICE, Family.POOL: Family.DEVICE}
"""One free takes them all."""

SLOTS = {
    **dict.fromkeys(LAUNCHES, Slot.LAUNCH),
    **{name: Slot.COPY_HTOD for name in COPIES if "HtoD" in name},
    **{name: Slot.COPY_DTOH for name in COPIES if "DtoH" in name},
    **{name: Slot.SET for name in COPIES if "Memset" in name},
    **dict.fromkeys((*FREES.values(), "cuMemFreeAsync", "cuMemRelease"), Slot.FREE),
    "cuGraphLaunch": Slot.GRAPH_LAUNCH,
    **dict.fromkeys(
        ("cuStreamSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2", "cuEventSynchronize"),
        Slot.SYNCHRONIZE,
    ),
    **dict.fromkeys(("cuStreamQuery", "cuEventQuery"), Slot.POLL_READY),
    **dict.fromkeys(
        (
            "cuMemAlloc_v2",
            "cuMemAllocManaged",
            "cuMemAllocAsync",
            "cuMemAllocHost_v2",
            "cuMemHostRegister_v2",
            "cuArrayCreate_v2",
            "cuMemAllocPitch_v2",
            "cuMemCreate",
        ),
        Slot.ALLOCATE,
    ),
    **dict.fromkeys(
        (
            "cuDeviceGetUuid_v2",
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRelease_v2",
            "cuDevicePrimaryCtxReset_v2",
            "cuCtxCreate_v2",
            "cuCtxDestroy_v2",
            "cuCtxSetCurrent",
            "cuCtxPushCurrent_v2",
            "cuCtxPopCurrent_v2",
            "cuGreenCtxCreate",
            "cuGreenCtxDestroy",
            "cuCtxFromGreenCtx",
        ),
        Slot.CONTEXT,
    ),
}
SUBMITS = {*LAUNCHES, *COPIES, "cuGraphLaunch", "cuMemAllocAsync", "cuMemFreeAsync"}
UNSEEN = {
    "cuInit",
    "cuLibraryLoadData",
    "cuEventCreate",
    "cuDeviceGetDevResource",
    "cuDevResourceGenerateDesc",
    "",
}


@dataclass(eq=False)
class Context:
    """A context: where it is, what was requested in it, and what most of that was."""

    device: int
    green: bool = False
    live: bool = True
    requested: Counter[Family] = field(default_factory=Counter)
    peak: Counter[Family] = field(default_factory=Counter)


@dataclass(eq=False)
class Thread:
    """A thread's stack of contexts, by handle, and the capture that it began last."""

    stack: list[int] = field(default_factory=list)
    capture: Capture | None = None
    own: tuple[Context | None, int] = (None, 0)
    """Where its own stream was met last, and how often that changed."""


@dataclass(eq=False)
class CreatedStream:
    """A stream that was created: its context is the one of its making."""

    context: Context | None


@dataclass(eq=False)
class Capture:
    """A stream being captured."""

    stream: Stream
    launches: int = 0
    unknown: bool = False


@dataclass
class Graph:
    """A graph or executable: how many launches it stands for, where that is known."""

    launches: int = 0
    unknown: bool = False


@dataclass
class Allocation:
    """Requested bytes; a handle of virtual memory has references and maps."""

    bytes: int
    context: Context | None
    device: int
    family: Family
    references: int = 1
    maps: int = 0


@dataclass
class Device:
    """The counters of one device of the process."""

    calls: Counter[Slot] = field(default_factory=Counter)
    bytes: Counter[Slot] = field(default_factory=Counter)
    errors: Counter[tuple[Slot, int]] = field(default_factory=Counter)
    launch_threads: int = 0
    graph_nodes: int = 0
    graph_unknown: int = 0
    allocations: Counter[Family] = field(default_factory=Counter)
    frees: Counter[Family] = field(default_factory=Counter)
    failures: Counter[Family] = field(default_factory=Counter)
    stream: Stream = None
    """What all outstanding work is on; None where there is none."""
    ticket: int = 0
