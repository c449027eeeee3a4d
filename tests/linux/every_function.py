"""Calls every function of the function table a prime number of times, with sane arguments.

Usage: python -m tests.linux.every_function SYMBOL...

After each function it prints one line of JSON with what it asked for, and waits for a line, so
that the counters can be compared function by function. Calls that a function needs beside it
(a free after an allocation) are made too: the oracle counts them.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from sim.workloads.driver import Driver

NULL = c_void_p(None)
HOST, DEVICE = 1, 2
GRID, BLOCK = (2, 3, 1), (5, 1, 7)
THREADS = 2 * 3 * 5 * 7
LAUNCH_US = 1


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D_v2 of cuda.h."""

    _fields_ = [
        (f"{side}_{name}", kind)
        for side in ("src", "dst")
        for name, kind in (
            ("x", c_size_t), ("y", c_size_t), ("type", c_uint), ("host", c_void_p),
            ("device", c_uint64), ("array", c_void_p), ("pitch", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t)]  # fmt: skip


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D_v2 and CUDA_MEMCPY3D_PEER of cuda.h."""

    _fields_ = [
        (f"{side}_{name}", kind)
        for side in ("src", "dst")
        for name, kind in (
            ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("lod", c_size_t),
            ("type", c_uint), ("host", c_void_p), ("device", c_uint64), ("array", c_void_p),
            ("reserved", c_void_p), ("pitch", c_size_t), ("rows", c_size_t),
        )
    ] + [("width", c_size_t), ("height", c_size_t), ("depth", c_size_t)]  # fmt: skip


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p), ("attributes", c_void_p), ("count", c_uint),
    ]  # fmt: skip


class LaunchParameters(ctypes.Structure):
    """CUDA_LAUNCH_PARAMS of cuda.h."""

    _fields_ = [
        ("function", c_void_p),
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p), ("parameters", c_void_p),
    ]  # fmt: skip


class Bench:
    """The handles that calls need, and what they moved."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.call = self.driver.attempt
        self.library = self.driver.library
        self.context = self.driver.context
        self.function = self.driver.function("busy_1us")
        self.slow = self.driver.function("busy_2ms")
        self.stream = self.driver.stream()
        self.event = self.driver.event()
        self.size = 4099
        self.device = [self.driver.allocate(1 << 20) for _ in range(2)]
        self.host = self.driver.pinned(1 << 20)
        self.arrays = [self._array() for _ in range(2)]
        self.graph, self.executable = self._graph()
        self.bytes = 0
        self.launch_threads = 0
        self.slot = ""
        self.symbol = ""

    def _array(self) -> c_void_p:
        made = c_void_p()
        shape = (c_uint64 * 3)(1 << 16, 1, 0x20 | 1 << 32)  # float, one channel
        self.driver.call("cuArrayCreate_v2", byref(made), shape)
        return made

    def _graph(self) -> tuple[c_void_p, c_void_p]:
        graph, executable = c_void_p(), c_void_p()
        self.driver.call("cuStreamBeginCapture_v2", self.stream, 0)
        self.driver.launch(self.function, self.stream)
        self.driver.call("cuStreamEndCapture", self.stream, byref(graph))
        self.driver.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        return graph, executable

    def moved(self, code: int, size_bytes: int) -> None:
        """Note bytes of a call that succeeded."""
        if not code:
            self.bytes += size_bytes

    @property
    def on_stream(self) -> c_void_p:
        """The stream to pass: the default one to names that have a per-thread default."""
        return NULL if self.symbol.endswith(("_ptsz", "_ptds")) else self.stream


Recipe = Callable[[Bench, str], None]


def shape() -> list[c_uint]:
    return [c_uint(each) for each in (*GRID, *BLOCK)]


def launch(it: Bench, symbol: str) -> None:
    it.call(symbol, it.function, *shape(), c_uint(0), it.on_stream, NULL, NULL)
    it.launch_threads += THREADS


def launch_cooperative(it: Bench, symbol: str) -> None:
    it.call(symbol, it.function, *shape(), c_uint(0), it.on_stream, NULL)
    it.launch_threads += THREADS


def launch_ex(it: Bench, symbol: str) -> None:
    config = LaunchConfig(*GRID, *BLOCK, 0, it.on_stream, None, 0)
    it.call(symbol, byref(config), it.function, NULL, NULL)
    it.launch_threads += THREADS


def launch_many(it: Bench, symbol: str) -> None:
    one = LaunchParameters(it.function, *GRID, *BLOCK, 0, it.stream, None)
    it.call(symbol, byref(one), 1, 0)


def simple(*arguments: str) -> Recipe:
    """Return a call with these attributes of the bench as arguments."""

    def recipe(it: Bench, symbol: str) -> None:
        it.call(symbol, *(getattr(it, name) for name in arguments))

    return recipe


def poll(it: Bench, symbol: str) -> None:
    """Ask while work runs, and after: both answers."""
    it.driver.launch(it.slow, it.on_stream)
    it.launch_threads += 32
    if symbol == "cuEventQuery":
        it.call("cuEventRecord", it.event, it.on_stream)
    handle = it.event if symbol == "cuEventQuery" else it.on_stream
    while it.call(symbol, handle) == 600:
        pass


def linear(*arguments: str, count_at: int) -> Recipe:
    """Return a copy: d0 d1 h a0 a1 o(ffset) n s(tream) c(ontext), each one argument."""

    def recipe(it: Bench, symbol: str) -> None:
        values: dict[str, Any] = {
            "d0": it.device[0], "d1": it.device[1], "h": it.host, "a0": it.arrays[0],
            "a1": it.arrays[1], "o": c_size_t(0), "n": c_size_t(it.size), "s": it.on_stream,
            "c": it.context,
        }  # fmt: skip
        given = [values[name] for name in arguments]
        it.moved(it.call(symbol, *given), it.size if count_at else 0)

    return recipe


def side(kind: int, it: Bench) -> dict[str, Any]:
    if kind == HOST:
        return {"type": HOST, "host": it.host}
    return {"type": DEVICE, "device": it.device[0].value}


def described(it: Bench, symbol: str) -> None:
    """Copy by a struct, from the host to the device."""
    three = "3D" in symbol
    struct = Copy3D() if three else Copy2D()
    for name, kind in (("src", HOST), ("dst", DEVICE)):
        for field, value in side(kind, it).items():
            setattr(struct, f"{name}_{field}", value)
    struct.width, struct.height = 101, 13
    total = 101 * 13
    if three:
        struct.depth = 3
        total *= 3
    stream = (it.on_stream,) if "Async" in symbol else ()
    code = it.call(symbol, byref(struct), *stream)
    if "Peer" not in symbol:
        it.slot = "COPY_HTOD"
    it.moved(code, total)


def before_3_2(it: Bench, symbol: str) -> None:
    """Copy by a struct of the 32-bit form, whose layout the probes do not read."""
    it.call(symbol, (c_uint64 * 32)(), *((it.stream,) if "Async" in symbol else ()))


def batch(it: Bench, symbol: str) -> None:
    sizes = (c_size_t * 3)(17, 4099, 65537)
    pointers = (c_uint64 * 3)(*[it.device[0].value] * 3)
    failed = () if "_v2" in symbol else (byref(c_size_t()),)
    attributes = (ctypes.create_string_buffer(256), byref(c_size_t(0)), c_size_t(1))
    stream = it.stream  # not the default one: cuda.h
    code = it.call(symbol, pointers, pointers, sizes, c_size_t(3), *attributes, *failed, stream)
    it.moved(code, 17 + 4099 + 65537)


def batch_3d(it: Bench, symbol: str) -> None:
    operations = ctypes.create_string_buffer(4096)
    failed = () if "_v2" in symbol else (byref(c_size_t()),)
    it.call(symbol, c_size_t(1), operations, *failed, c_uint64(0), it.stream)


def set_linear(bits: int) -> Recipe:
    def recipe(it: Bench, symbol: str) -> None:
        stream = (it.on_stream,) if "Async" in symbol else ()
        code = it.call(symbol, it.device[0], c_uint(7), c_size_t(it.size), *stream)
        it.moved(code, it.size * bits // 8)

    return recipe


def set_pitched(bits: int) -> Recipe:
    def recipe(it: Bench, symbol: str) -> None:
        stream = (it.on_stream,) if "Async" in symbol else ()
        shape = (c_size_t(101), c_size_t(13))
        code = it.call(symbol, it.device[0], c_size_t(512), c_uint(7), *shape, *stream)
        known = "Async" in symbol or "_v2" in symbol
        it.moved(code, 101 * 13 * bits // 8 if known else 0)

    return recipe


def allocate(free: str, *more: str) -> Recipe:
    """Return an allocation, freed again."""

    def recipe(it: Bench, symbol: str) -> None:
        pointer = c_uint64()
        rest = {"0": c_uint(0), "1": c_uint(1), "s": it.on_stream, "pool": pool(it)}
        it.bytes += it.size
        code = it.call(symbol, byref(pointer), c_size_t(it.size), *(rest[each] for each in more))
        if code:
            it.bytes -= it.size
            return
        it.call(free, pointer, *((it.on_stream,) if "Async" in free else ()))

    return recipe


def pool(it: Bench) -> c_void_p:
    made = c_void_p()
    it.call("cuDeviceGetDefaultMemPool", byref(made), 0)
    return made


def allocate_pitch(it: Bench, symbol: str) -> None:
    pointer, pitch = c_uint64(), c_size_t()
    shape = (c_size_t(101), c_size_t(13), c_uint(4))
    if not it.call(symbol, byref(pointer), byref(pitch), *shape):
        it.bytes += pitch.value * 13 if symbol.endswith("_v2") else 0
        it.call("cuMemFree_v2", pointer)


def free(allocation: str, *more: str) -> Recipe:
    """Return a free, of what was allocated for it."""

    def recipe(it: Bench, symbol: str) -> None:
        pointer = c_uint64()
        rest = {"0": c_uint(0), "s": it.on_stream}
        given = (c_size_t(it.size), *(rest[each] for each in more))
        it.driver.call(allocation, byref(pointer), *given)
        it.bytes += it.size
        it.call(symbol, pointer, *((it.on_stream,) if "Async" in symbol else ()))

    return recipe


def register(it: Bench, symbol: str) -> None:
    buffer = ctypes.create_string_buffer(it.size)
    if symbol == "cuMemHostUnregister":
        it.driver.call("cuMemHostRegister_v2", buffer, c_size_t(it.size), 0)
        it.bytes += it.size
        it.call(symbol, buffer)
        return
    if not it.call(symbol, buffer, c_size_t(it.size), 0):
        it.bytes += it.size
    it.call("cuMemHostUnregister", buffer)


def array(it: Bench, symbol: str) -> None:
    made = c_void_p()
    if "3D" in symbol or "Mipmapped" in symbol:
        descriptor: Any = (c_uint64 * 5)(101, 7, 3, 0x20 | 2 << 32, 0)
        total = 101 * 7 * 3 * 8
    else:
        descriptor, total = (c_uint64 * 3)(101, 7, 0x20 | 2 << 32), 101 * 7 * 8
    levels = (c_uint(1),) if "Mipmapped" in symbol else ()
    if "Destroy" in symbol:
        create = "cuMipmappedArrayCreate" if levels else "cuArrayCreate_v2"
        it.driver.call(create, byref(made), descriptor, *levels)
        it.bytes += total
        it.call(symbol, made)
        return
    if it.call(symbol, byref(made), descriptor, *levels):
        return
    if symbol not in ("cuArrayCreate", "cuArray3DCreate"):
        it.bytes += total
    it.call("cuMipmappedArrayDestroy" if levels else "cuArrayDestroy", made)


def virtual(it: Bench, symbol: str) -> None:
    """The whole life of virtual memory; which of its calls is meant does not matter."""
    handle, again, address = c_void_p(), c_void_p(), c_uint64()
    chunk, zero = c_size_t(2 << 20), c_uint64(0)
    it.driver.call("cuMemCreate", byref(handle), chunk, (c_int * 8)(1, 0, 1, 0), zero)
    it.bytes += 2 << 20
    it.driver.call("cuMemAddressReserve", byref(address), chunk, zero, zero, zero)
    it.driver.call("cuMemMap", address, chunk, zero, handle, zero)
    if not it.call("cuMemRetainAllocationHandle", byref(again), address):
        it.call("cuMemRelease", again)
    it.call("cuMemUnmap", address, chunk)
    it.call("cuMemRelease", handle)
    it.call("cuMemAddressFree", address, chunk)


def context(it: Bench, symbol: str) -> None:
    made = c_void_p()
    before = {"cuCtxCreate_v3": (NULL, 0), "cuCtxCreate_v4": (NULL,)}.get(symbol, ())
    if not it.call(symbol, byref(made), *before, c_uint(0), 0):
        it.call("cuCtxPopCurrent_v2", byref(c_void_p()))
        it.call("cuCtxDestroy_v2", made)


def context_destroy(it: Bench, symbol: str) -> None:
    made = c_void_p()
    it.driver.call("cuCtxCreate_v2", byref(made), 0, 0)
    it.call(symbol, made)


def push_pop(it: Bench, symbol: str) -> None:
    push = symbol if "Push" in symbol else "cuCtxPushCurrent_v2"
    pop = symbol if "Pop" in symbol else "cuCtxPopCurrent_v2"
    it.call(push, it.context)
    it.call(pop, byref(c_void_p()))


def primary(it: Bench, symbol: str) -> None:
    """Device 1, so that the context in use stays."""
    if "Reset" not in symbol:
        it.call("cuDevicePrimaryCtxRetain", byref(c_void_p()), 1)
    it.call(symbol if "Retain" not in symbol else "cuDevicePrimaryCtxRelease_v2", 1)


def green(it: Bench, symbol: str) -> None:
    resource, description = ctypes.create_string_buffer(256), c_void_p()
    made, view, stream = c_void_p(), c_void_p(), c_void_p()
    it.call("cuDeviceGetDevResource", 0, resource, 1)
    it.call("cuDevResourceGenerateDesc", byref(description), resource, 1)
    if it.call("cuGreenCtxCreate", byref(made), description, 0, c_uint(1)):
        return
    it.call("cuCtxFromGreenCtx", byref(view), made)
    if not it.call("cuGreenCtxStreamCreate", byref(stream), made, c_uint(1), 0):
        it.call("cuStreamDestroy_v2", stream)
    it.call("cuGreenCtxDestroy", made)


def uuid(it: Bench, symbol: str) -> None:
    it.call(symbol, ctypes.create_string_buffer(16), 0)


def stream(it: Bench, symbol: str) -> None:
    made = c_void_p()
    create = symbol if "Create" in symbol else "cuStreamCreate"
    priority = (0,) if "Priority" in create else ()
    it.call(create, byref(made), c_uint(1), *priority)
    it.call(symbol if "Destroy" in symbol else "cuStreamDestroy_v2", made)


def event(it: Bench, symbol: str) -> None:
    if "Destroy" in symbol:
        it.call(symbol, it.driver.event())
    else:
        it.call(symbol, it.event, it.on_stream, *((c_uint(0),) if "Flags" in symbol else ()))


def capture(it: Bench, symbol: str) -> None:
    begin = symbol if "Begin" in symbol else "cuStreamBeginCapture_v2"
    end = symbol if "End" in symbol else "cuStreamEndCapture"
    graph = c_void_p()
    if "ToGraph" in begin:
        it.driver.call("cuGraphCreate", byref(graph), 0)
        code = it.call(begin, it.stream, graph, NULL, NULL, c_size_t(0), 0)
    else:
        code = it.call(begin, it.stream, 0)
    if not code and not it.call(end, it.stream, byref(graph)):
        it.call("cuGraphDestroy", graph)


def instantiate(it: Bench, symbol: str) -> None:
    made = c_void_p()
    more: dict[str, tuple[Any, ...]] = {
        "cuGraphInstantiateWithFlags": (c_uint64(0),),
        "cuGraphInstantiate": (NULL, NULL, c_size_t(0)),
        "cuGraphInstantiate_v2": (NULL, NULL, c_size_t(0)),
    }
    given = more.get(symbol, (ctypes.create_string_buffer(256),))
    if not it.call(symbol, byref(made), it.graph, *given):
        it.call("cuGraphExecDestroy", made)


def graph(it: Bench, symbol: str) -> None:
    """Make a graph, add a node of the kind named, destroy both."""
    made, other, node = c_void_p(), c_void_p(), c_void_p()
    it.driver.call("cuGraphCreate", byref(made), 0)
    parameters = (c_uint64 * 32)(it.function.value)
    none = (NULL, c_size_t(0))
    if symbol.startswith("cuGraphAddKernelNode"):
        it.call(symbol, byref(node), made, *none, parameters)
    elif symbol == "cuGraphAddNode":
        it.call(symbol, byref(node), made, *none, (c_uint64 * 32)(5))
    elif symbol.startswith("cuGraphAddNode_"):
        it.call(symbol, byref(node), made, NULL, *none, (c_uint64 * 32)(5))
    elif symbol == "cuGraphAddChildGraphNode":
        it.call(symbol, byref(node), made, *none, it.graph)
    elif symbol.startswith("cuGraphAdd"):
        it.call(symbol, byref(node), made, *none, (c_uint64 * 32)(), it.context)
    elif symbol == "cuGraphDestroyNode":
        it.call("cuGraphAddEmptyNode", byref(node), made, *none)
        it.call(symbol, node)
    elif symbol == "cuGraphClone" and not it.call(symbol, byref(other), made):
        it.call("cuGraphDestroy", other)
    it.call("cuGraphDestroy", made)


def execution(it: Bench, symbol: str) -> None:
    if symbol == "cuGraphExecDestroy":
        made = c_void_p()
        it.driver.call("cuGraphInstantiateWithFlags", byref(made), it.graph, c_uint64(0))
        it.call(symbol, made)
    elif symbol == "cuGraphExecUpdate":
        it.call(symbol, it.executable, it.graph, byref(c_void_p()), byref(c_int()))
    else:
        it.call(symbol, it.executable, it.graph, ctypes.create_string_buffer(64))


CALLBACK = ctypes.CFUNCTYPE(None, c_void_p)(lambda _data: None)
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)(lambda *_given: None)


def host_function(it: Bench, symbol: str) -> None:
    if "Callback" in symbol:
        it.call(symbol, it.on_stream, STREAM_CALLBACK, NULL, c_uint(0))
    else:
        it.call(symbol, it.on_stream, CALLBACK, NULL)


def prefetch(it: Bench, symbol: str) -> None:
    location = (c_uint64(1), c_uint(0)) if "_v2" in symbol else (c_int(0),)
    code = it.call(symbol, it.device[0], c_size_t(it.size), *location, it.on_stream)
    it.moved(code, it.size)


def names(it: Bench, symbol: str) -> None:
    module, made = c_void_p(), c_void_p()
    if symbol == "cuModuleGetFunction":
        it.driver.call("cuModuleLoadData", byref(module), b"simulated\0")
        it.call(symbol, byref(made), module, c_char_p(b"busy_1us"))
        return
    it.call("cuLibraryLoadData", byref(module), b"simulated\0", NULL, NULL, 0, NULL, NULL, 0)
    it.call("cuLibraryGetKernel", byref(made), module, c_char_p(b"busy_1us"))
    if symbol == "cuKernelGetFunction":
        it.call(symbol, byref(c_void_p()), made)


def zeros(it: Bench, symbol: str) -> None:
    """Nothing sane can be passed: it fails, and is counted as failed."""
    it.call(symbol, *[NULL] * 9)


EXACT: dict[str, Recipe] = {
    "cuLaunchKernel": launch,
    "cuLaunchKernelEx": launch_ex,
    "cuLaunchCooperativeKernel": launch_cooperative,
    "cuLaunchCooperativeKernelMultiDevice": launch_many,
    "cuLaunch": simple("function"),
    "cuLaunchGrid": lambda it, symbol: it.call(symbol, it.function, 3, 5) and None,
    "cuLaunchGridAsync": lambda it, s: it.call(s, it.function, 3, 5, it.stream) and None,
    "cuGraphLaunch": simple("executable", "on_stream"),
    "cuGraphUpload": simple("executable", "on_stream"),
    "cuStreamSynchronize": simple("on_stream"),
    "cuCtxSynchronize": simple(),
    "cuCtxSynchronize_v2": simple("context"),
    "cuEventSynchronize": simple("event"),
    "cuStreamQuery": poll,
    "cuEventQuery": poll,
    "cuMemcpy": linear("d0", "d1", "n", count_at=3),
    "cuMemcpyAsync": linear("d0", "d1", "n", "s", count_at=3),
    "cuMemcpyPeer": linear("d0", "c", "d1", "c", "n", count_at=5),
    "cuMemcpyPeerAsync": linear("d0", "c", "d1", "c", "n", "s", count_at=5),
    "cuMemAlloc_v2": allocate("cuMemFree_v2"),
    "cuMemAlloc": allocate("cuMemFree_v2"),
    "cuMemAllocPitch_v2": allocate_pitch,
    "cuMemAllocPitch": allocate_pitch,
    "cuMemAllocManaged": allocate("cuMemFree_v2", "1"),
    "cuMemAllocAsync": allocate("cuMemFreeAsync", "s"),
    "cuMemAllocFromPoolAsync": allocate("cuMemFreeAsync", "pool", "s"),
    "cuMemAllocHost_v2": allocate("cuMemFreeHost"),
    "cuMemAllocHost": allocate("cuMemFreeHost"),
    "cuMemHostAlloc": allocate("cuMemFreeHost", "0"),
    "cuMemFree_v2": free("cuMemAlloc_v2"),
    "cuMemFree": free("cuMemAlloc_v2"),
    "cuMemFreeAsync": free("cuMemAllocAsync", "s"),
    "cuMemFreeHost": free("cuMemAllocHost_v2"),
    "cuMemImportFromShareableHandle": zeros,
    "cuCtxDestroy": context_destroy,
    "cuCtxDestroy_v2": context_destroy,
    "cuCtxSetCurrent": simple("context"),
    "cuDeviceGetUuid": uuid,
    "cuDeviceGetUuid_v2": uuid,
    "cuGraphExecDestroy": execution,
    "cuGraphExecUpdate": execution,
    "cuGraphExecUpdate_v2": execution,
    "cuGreenCtxStreamCreate": green,
    "cuCtxFromGreenCtx": green,
    "cuModuleGetFunction": names,
    "cuLibraryGetKernel": names,
    "cuKernelGetFunction": names,
    "cuStreamAddCallback": host_function,
    "cuLaunchHostFunc": host_function,
    "cuStreamBatchMemOp": lambda it, s: it.call(s, it.on_stream, 1, it.host, 0) and None,
    "cuStreamBatchMemOp_v2": lambda it, s: it.call(s, it.on_stream, 1, it.host, 0) and None,
    "cuSignalExternalSemaphoresAsync": lambda it, s: (
        it.call(s, it.host, it.host, 1, it.on_stream) and None
    ),
    "cuWaitExternalSemaphoresAsync": lambda it, s: (
        it.call(s, it.host, it.host, 1, it.on_stream) and None
    ),
}
"""By base name, `_ptsz` and `_ptds` taken off."""

LINEAR = {
    "cuMemcpyHtoD": ("d0", "h", "n"),
    "cuMemcpyDtoH": ("h", "d0", "n"),
    "cuMemcpyDtoD": ("d0", "d1", "n"),
    "cuMemcpyDtoA": ("a0", "o", "d0", "n"),
    "cuMemcpyAtoD": ("d0", "a0", "o", "n"),
    "cuMemcpyHtoA": ("a0", "o", "h", "n"),
    "cuMemcpyAtoH": ("h", "a0", "o", "n"),
    "cuMemcpyAtoA": ("a0", "o", "a1", "o", "n"),
}
"""Arguments; with Async a stream follows."""

FAMILIES: tuple[tuple[str, Recipe], ...] = (
    ("cuMemcpyBatch", batch),
    ("cuMemcpy3DBatch", batch_3d),
    ("cuMemcpy2D", described),
    ("cuMemcpy3D", described),
    *((f"cuMemsetD{bits}", set_linear(bits)) for bits in (8, 16, 32)),
    *((f"cuMemsetD2D{bits}", set_pitched(bits)) for bits in (8, 16, 32)),
    ("cuMemHost", register),
    ("cuArray", array),
    ("cuMipmapped", array),
    ("cuMem", virtual),
    ("cuCtxCreate", context),
    ("cuCtxPush", push_pop),
    ("cuCtxPop", push_pop),
    ("cuDevicePrimaryCtx", primary),
    ("cuGreenCtx", green),
    ("cuStreamCreate", stream),
    ("cuStreamDestroy", stream),
    ("cuEvent", event),
    ("cuStreamBegin", capture),
    ("cuStreamEnd", capture),
    ("cuGraphics", zeros),
    ("cuGraphInstantiate", instantiate),
    ("cuGraph", graph),
)
"""By prefix, the first that fits."""
VIRTUAL = ("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemRetainAllocationHandle")
OLD_STRUCTS = ("cuMemcpy2D", "cuMemcpy2DUnaligned", "cuMemcpy3D", "cuMemcpy2DAsync",
               "cuMemcpy3DAsync")  # fmt: skip
PREFETCH = ("cuMemPrefetchAsync", "cuMemPrefetchAsync_v2")


def recipe_of(symbol: str) -> Recipe:
    """Return how a function is called."""
    base = symbol.removesuffix("_ptsz").removesuffix("_ptds")
    if base in EXACT:
        return EXACT[base]
    if base in OLD_STRUCTS:
        return before_3_2
    if base in PREFETCH:
        return prefetch
    plain = base.removesuffix("_v2")
    for name, arguments in LINEAR.items():
        if plain == name:
            return linear(*arguments, count_at=1)
        if plain == name + "Async":
            return linear(*arguments, "s", count_at=1)
    for prefix, recipe in FAMILIES:
        if base.startswith(prefix) and (recipe is not virtual or base in VIRTUAL):
            return recipe
    return zeros


def main() -> None:
    """Call each function named as SYMBOL=TIMES."""
    it = Bench()
    say(it, "")
    for each in sys.argv[1:]:
        symbol, times = each.split("=")
        it.symbol, it.slot, it.bytes, it.launch_threads = symbol, "", 0, 0
        it.driver.counts = Counter()
        recipe = recipe_of(symbol)
        for _ in range(int(times)):
            recipe(it, symbol)
        it.library.cuCtxSynchronize()
        say(it, symbol)


def say(it: Bench, symbol: str) -> None:
    """Tell what was asked for, and wait until it was compared."""
    said = {
        "symbol": symbol,
        "bytes": it.bytes,
        "launch_threads": it.launch_threads,
        "slot": it.slot,
        "calls": it.driver.counts[symbol],
    }
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    input()


if __name__ == "__main__":
    main()
