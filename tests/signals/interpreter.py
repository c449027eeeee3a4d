"""Runs random programs of driver calls, and tells what it called and what was answered.

Usage: python -m tests.signals.interpreter, on the simulated driver. A program comes as a line of
JSON, a list of steps [thread, operation, pick, size]; it runs in a forked process of its own,
which prints its pid and its calls as a line, and ends at the next line. What a step picks is
found among what is there by then, so that every program makes sense, also after shrinking.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from sim.control import Control
from tests.signals.calls import COPIES, FAILING, FREES, LAUNCHES

NULL = c_void_p(None)
CHUNK = 2 << 20
HOST_BYTES = 1 << 20


class Thread:
    """A thread that runs one call at a time."""

    def __init__(self) -> None:
        self._todo: queue.SimpleQueue[Callable[[], int] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, daemon=True)
        self._worker.start()

    def _work(self) -> None:
        while (call := self._todo.get()) is not None:
            self._done.put(call())

    def run(self, call: Callable[[], int]) -> int:
        self._todo.put(call)
        return self._done.get()

    def end(self) -> None:
        """End the thread, and wait until Linux has none of it."""
        self._todo.put(None)
        self._worker.join()
        task = Path(f"/proc/self/task/{self._worker.native_id}")
        while task.exists():
            pass


class Program:
    """The handles a program has, and the calls it made."""

    def __init__(self, library: Any, control: Control) -> None:
        self.library = library
        self.control = control
        self.log: list[dict[str, Any]] = []
        self.threads: dict[int, Thread] = {}
        self.thread = 0
        self.live: dict[str, list[int]] = {}
        self.ranges: list[tuple[int, int]] = []
        self.kept: list[Any] = []
        self.sizes: dict[int, int] = {}
        """Bytes of device memory by address."""
        self.host = ctypes.create_string_buffer(HOST_BYTES)
        self.function = c_void_p()

    def call(self, symbol: str, *arguments: Any, **told: Any) -> int:
        """Make a call in the thread of this step, and note it."""
        function = getattr(self.library, symbol)
        thread = self.threads.get(self.thread)
        if thread is None:
            thread = self.threads[self.thread] = Thread()
        code = thread.run(lambda: int(function(*arguments)))
        self.log.append({"thread": self.thread, "symbol": symbol, "code": code, **told})
        return code

    def make(self, kind: str, symbol: str, *arguments: Any, **told: Any) -> None:
        """Make a call that writes a handle to its first argument."""
        made = c_uint64()
        code = self.call(symbol, byref(made), *arguments, **told)
        self.log[-1]["made"] = made.value
        if not code:
            self.live.setdefault(kind, []).append(made.value)

    def pick(self, kind: str, at: int) -> int | None:
        """Return one of what is there, and None where there is none."""
        there = self.live.get(kind)
        return there[at % len(there)] if there else None

    def take(self, kind: str, at: int) -> int | None:
        """Return one of what is there, and no longer have it."""
        there = self.live.get(kind)
        return there.pop(at % len(there)) if there else None

    def stream(self, at: int) -> int:
        """Return 0, the legacy stream; 2, the thread's own; or a created one."""
        there = [0, 2, *self.live.get("stream", ()), *self.live.get("stream", ())]
        return there[at % len(there)]

    def run(self, steps: list[list[Any]]) -> None:
        self.thread = 0
        self.call("cuInit", 0)
        for ordinal in range(2):
            uuid = ctypes.create_string_buffer(16)
            self.call("cuDeviceGetUuid_v2", uuid, ordinal, device=ordinal)
            self.log[-1]["uuid"] = uuid.raw.hex()
        loaded = c_void_p()
        self.call("cuLibraryLoadData", byref(loaded), b"simulated", *[NULL] * 2, 0, *[NULL] * 2, 0)
        self.call("cuLibraryGetKernel", byref(self.function), loaded, c_char_p(b"busy_1us"))
        for thread, operation, pick, size in steps:
            self.thread = thread
            getattr(self, f"do_{operation}")(pick, size)

    # Contexts

    def do_retain(self, pick: int, size: int) -> None:
        self.make("primary", "cuDevicePrimaryCtxRetain", pick % 2, device=pick % 2)
        if not self.log[-1]["code"]:
            self.live.setdefault("context", []).append(self.log[-1]["made"])

    def do_release(self, pick: int, size: int) -> None:
        self.call("cuDevicePrimaryCtxRelease_v2", pick % 2, device=pick % 2)

    def do_reset(self, pick: int, size: int) -> None:
        self.call("cuDevicePrimaryCtxReset_v2", pick % 2, device=pick % 2)

    def do_create(self, pick: int, size: int) -> None:
        self.make("context", "cuCtxCreate_v2", 0, pick % 2, device=pick % 2)

    def do_destroy(self, pick: int, size: int) -> None:
        handle = self.pick("context", pick)
        if handle:
            self.call("cuCtxDestroy_v2", c_void_p(handle), handle=handle)

    def do_set(self, pick: int, size: int) -> None:
        handle = (self.pick("context", pick) if size % 7 else 0) or 0
        self.call("cuCtxSetCurrent", c_void_p(handle), handle=handle)

    def do_push(self, pick: int, size: int) -> None:
        handle = self.pick("context", pick)
        for _ in range(7 if handle and size % 11 == 0 else 1):
            self.call("cuCtxPushCurrent_v2", c_void_p(handle), handle=handle or 0)

    def do_pop(self, pick: int, size: int) -> None:
        self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def do_green(self, pick: int, size: int) -> None:
        resource, description = (c_uint * 64)(), c_void_p()
        self.call("cuDeviceGetDevResource", pick % 2, resource, 1)
        self.call("cuDevResourceGenerateDesc", byref(description), resource, 1)
        self.make("green", "cuGreenCtxCreate", description, pick % 2, 1, device=pick % 2)

    def do_view(self, pick: int, size: int) -> None:
        green = self.pick("green", pick)
        if green:
            self.make("context", "cuCtxFromGreenCtx", c_void_p(green), green=green)

    def do_green_destroy(self, pick: int, size: int) -> None:
        green = self.take("green", pick)
        if green:
            self.call("cuGreenCtxDestroy", c_void_p(green), handle=green)

    # Streams and events

    def do_stream(self, pick: int, size: int) -> None:
        self.make("stream", "cuStreamCreate", 1)

    def do_green_stream(self, pick: int, size: int) -> None:
        green = self.pick("green", pick)
        if green:
            self.make("stream", "cuGreenCtxStreamCreate", c_void_p(green), 1, 0, green=green)

    def do_stream_destroy(self, pick: int, size: int) -> None:
        handle = self.pick("stream", pick)
        if handle:
            code = self.call("cuStreamDestroy_v2", c_void_p(handle), handle=handle)
            if not code:
                self.live["stream"].remove(handle)

    def _on_stream(self, symbol: str, pick: int, *before: Any, **told: Any) -> int:
        stream = self.stream(pick)
        return self.call(symbol, *before, c_void_p(stream), stream=stream, **told)

    def do_stream_sync(self, pick: int, size: int) -> None:
        self._on_stream("cuStreamSynchronize", pick)

    def do_stream_query(self, pick: int, size: int) -> None:
        self._on_stream("cuStreamQuery", pick)

    def do_ctx_sync(self, pick: int, size: int) -> None:
        handle = self.pick("context", pick)
        if size % 2 and handle:
            self.call("cuCtxSynchronize_v2", c_void_p(handle), context=handle)
        else:
            self.call("cuCtxSynchronize")

    def do_event(self, pick: int, size: int) -> None:
        self.make("event", "cuEventCreate", 0)

    def do_record(self, pick: int, size: int) -> None:
        event = self.pick("event", size)
        if event:
            self._on_stream("cuEventRecord", pick, c_void_p(event), event=event)

    def do_event_sync(self, pick: int, size: int) -> None:
        event = self.pick("event", pick)
        if event:
            symbol = "cuEventQuery" if size % 3 == 0 else "cuEventSynchronize"
            self.call(symbol, c_void_p(event), event=event)

    def do_event_destroy(self, pick: int, size: int) -> None:
        event = self.take("event", pick)
        if event:
            self.call("cuEventDestroy_v2", c_void_p(event), event=event)

    # Work

    def do_launch(self, pick: int, size: int) -> None:
        symbol, stream = LAUNCHES[size % len(LAUNCHES)], self.stream(pick)
        shape = [size % 5 + 1, 3, 1, size % 7 + 1, 1, 2]
        threads = shape[0] * 3 * shape[3] * 2
        if symbol.startswith("cuLaunchKernelEx"):
            config = (c_uint64 * 8)()
            ctypes.memmove(config, (c_uint * 7)(*shape, 0), 28)
            config[4] = stream
            given: list[Any] = [config, self.function, NULL, NULL]
        else:
            given = [self.function, *map(c_uint, shape), 0, c_void_p(stream), NULL]
            given += [] if "Cooperative" in symbol else [NULL]
        self.call(symbol, *given, stream=stream, threads=threads)

    def do_copy(self, pick: int, size: int) -> None:
        memory, symbol = self.pick("device", pick // 7), COPIES[size % len(COPIES)]
        if not memory:
            return
        moved = min(size, self.sizes[memory])
        if symbol.startswith("cuMemset"):
            given: list[Any] = [c_uint64(memory), 7, c_size_t(moved)]
        elif "DtoH" in symbol:
            given = [self.host, c_uint64(memory), c_size_t(moved)]
        else:
            given = [c_uint64(memory), self.host, c_size_t(moved)]
        if "Async" in symbol:
            self._on_stream(symbol, pick, *given, bytes=moved)
        else:
            self.call(symbol, *given, stream=0, bytes=moved)

    # Memory

    def do_allocate(self, pick: int, size: int) -> None:
        kind = ("device", "managed", "pool", "host", "registered", "array", "pitch")[pick % 7]
        stream = self.stream(pick // 7)
        count = len(self.live.get("device", ()))
        told = {"bytes": size, "family": kind}
        if kind == "device":
            self.make("device", "cuMemAlloc_v2", c_size_t(size), **told)
        elif kind == "managed":
            self.make("device", "cuMemAllocManaged", c_size_t(size), 1, **told)
        elif kind == "pool":
            self.make(
                "device", "cuMemAllocAsync", c_size_t(size), c_void_p(stream), **told, stream=stream
            )
        elif kind == "host":
            self.make("host", "cuMemAllocHost_v2", c_size_t(size), **told)
        elif kind == "array":
            shape = (c_uint64 * 3)(size % 997 + 1, 3, 0x20 | 2 << 32)
            told["bytes"] = (size % 997 + 1) * 3 * 8
            self.make("array", "cuArrayCreate_v2", shape, **told)
        elif kind == "pitch":
            pitch, width, rows = c_size_t(), size % 997 + 1, size % 5 + 1
            told["family"] = "device"
            self.make(
                "device", "cuMemAllocPitch_v2", byref(pitch), c_size_t(width), c_size_t(rows), 4,
                **told,
            )  # fmt: skip
            self.log[-1]["bytes"] = size = pitch.value * rows
            self.log[-1]["rows"] = rows
        else:
            buffer = ctypes.create_string_buffer(size)
            self.kept.append(buffer)
            at = ctypes.addressof(buffer)
            told["made"] = at
            if not self.call("cuMemHostRegister_v2", c_uint64(at), c_size_t(size), 0, **told):
                self.live.setdefault("registered", []).append(at)
        if len(self.live.get("device", ())) > count:
            self.sizes[self.live["device"][-1]] = size

    def do_free(self, pick: int, size: int) -> None:
        kind = tuple(FREES)[pick % len(FREES)]
        handle = self.pick(kind, pick // 7)
        if handle is None:
            return
        symbol = FREES[kind]
        if kind == "device" and size % 3 == 0:
            code = self._on_stream("cuMemFreeAsync", size, c_uint64(handle), handle=handle)
        else:
            code = self.call(symbol, c_uint64(handle), handle=handle)
        if not code:
            self.live[kind].remove(handle)

    def do_chunk(self, pick: int, size: int) -> None:
        chunks = size % 3 + 1
        properties = (c_int * 8)(1, 0, 1, pick % 2)
        self.make(
            "chunk", "cuMemCreate", c_size_t(chunks * CHUNK), properties, c_uint64(0),
            bytes=chunks * CHUNK, family="virtual",
        )  # fmt: skip

    def do_chunk_release(self, pick: int, size: int) -> None:
        handle = self.pick("chunk", pick)
        if handle and not self.call("cuMemRelease", c_uint64(handle), handle=handle):
            self.live["chunk"].remove(handle)

    def do_map(self, pick: int, size: int) -> None:
        handle, at = self.pick("chunk", pick), c_uint64()
        if not handle:
            return
        zero, length = c_uint64(0), c_size_t(CHUNK)
        self.library.cuMemAddressReserve(byref(at), length, zero, zero, zero)
        if not self.call(
            "cuMemMap", at, length, zero, c_uint64(handle), zero, handle=handle, at=at.value
        ):
            self.live.setdefault("range", []).append(at.value)

    def do_unmap(self, pick: int, size: int) -> None:
        at = self.pick("range", pick)
        if at and not self.call("cuMemUnmap", c_uint64(at), c_size_t(CHUNK), at=at):
            self.live["range"].remove(at)

    def do_hold(self, pick: int, size: int) -> None:
        at = self.pick("range", pick)
        if at:
            self.make("chunk", "cuMemRetainAllocationHandle", c_uint64(at), at=at)

    # Capture and graphs

    def do_begin(self, pick: int, size: int) -> None:
        into = self.pick("graph", pick) if size % 3 == 0 else None
        if into:
            symbol, stream = "cuStreamBeginCaptureToGraph", self.stream(pick)
            given = (c_void_p(into), NULL, NULL, c_size_t(0), 2)
            self.call(symbol, c_void_p(stream), *given, stream=stream)
        else:
            stream = self.stream(pick)
            self.call("cuStreamBeginCapture_v2", c_void_p(stream), 2, stream=stream)

    def do_end(self, pick: int, size: int) -> None:
        stream, made = self.stream(pick), c_uint64()
        code = self.call("cuStreamEndCapture", c_void_p(stream), byref(made), stream=stream)
        self.log[-1]["made"] = made.value
        graphs = self.live.setdefault("graph", [])
        if not code and made.value not in graphs:
            graphs.append(made.value)

    def do_graph(self, pick: int, size: int) -> None:
        self.make("graph", "cuGraphCreate", 0)

    def do_node(self, pick: int, size: int) -> None:
        graph = self.pick("graph", pick)
        if graph:
            parameters = (c_uint64 * 32)(self.function.value or 0)
            symbol = ("cuGraphAddKernelNode_v2", "cuGraphAddEmptyNode")[size % 4 == 0]
            given = [c_void_p(graph), NULL, c_size_t(0), parameters]
            self.make("node", symbol, *given, graph=graph)

    def do_child(self, pick: int, size: int) -> None:
        graph, child = self.pick("graph", pick), self.pick("graph", size)
        if graph and child and graph != child:
            given = [c_void_p(graph), NULL, c_size_t(0), c_void_p(child)]
            self.make("node", "cuGraphAddChildGraphNode", *given, graph=graph, child=child)

    def do_node_destroy(self, pick: int, size: int) -> None:
        node = self.take("node", pick)
        if node and size % 5 == 0:
            self.call("cuGraphDestroyNode", c_void_p(node))

    def do_clone(self, pick: int, size: int) -> None:
        graph = self.pick("graph", pick)
        if graph:
            self.make("graph", "cuGraphClone", c_void_p(graph), graph=graph)

    def do_instantiate(self, pick: int, size: int) -> None:
        graph = self.pick("graph", pick)
        if graph:
            given = [c_void_p(graph), c_uint64(0)]
            self.make("executable", "cuGraphInstantiateWithFlags", *given, graph=graph)

    def do_replay(self, pick: int, size: int) -> None:
        graph = self.pick("executable", size)
        if graph:
            self._on_stream("cuGraphLaunch", pick, c_void_p(graph), graph=graph)

    def do_update(self, pick: int, size: int) -> None:
        graph, executable = self.pick("graph", pick), self.pick("executable", size)
        if graph and executable:
            answer = (c_uint64 * 8)()
            self.call("cuGraphExecUpdate_v2", c_void_p(executable), c_void_p(graph), answer)

    # Everything else

    def do_fail(self, pick: int, size: int) -> None:
        """Let the next call of a function fail; no call by itself."""
        self.control.fail(FAILING[pick % len(FAILING)], (2, 719, 999, 12345)[size % 4], 1)

    def do_thread_end(self, pick: int, size: int) -> None:
        thread = self.threads.pop(self.thread, None)
        if thread:
            thread.end()
            self.log.append({"thread": self.thread, "symbol": "", "code": 0})


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    library: Any = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
    with open(0, "rb", buffering=0, closefd=False) as lines:
        while line := lines.readline():
            child = os.fork()
            if not child:
                control = Control(os.environ["GPUGAUGE_SIM_STATE"])
                program = Program(library, control)
                for symbol in FAILING:
                    control.heal(symbol)
                program.run(json.loads(line))
                tell(json.dumps([os.getpid(), program.log]))
                lines.readline()
                os._exit(0)
            os.waitpid(child, 0)
            tell("{}")


if __name__ == "__main__":
    main()
