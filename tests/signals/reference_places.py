"""Where calls go: contexts, streams, events, and what is outstanding on a device."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gpugauge.model.abi import Family
from tests.signals.reference_rows import (
    DEPTH,
    MIXED,
    UNKNOWN,
    Allocation,
    Capture,
    Context,
    CreatedStream,
    Device,
    Graph,
    Stream,
    Thread,
)


class Places:
    """The contexts, streams and events of one process."""

    def __init__(self) -> None:
        self.devices = {number: Device() for number in (0, 1, UNKNOWN)}
        self.contexts: dict[int, Context] = {}
        self.greens: dict[int, Context] = {}
        self.all_contexts: list[Context] = []
        self.nowhere = Context(UNKNOWN)
        """Stands for the context of memory whose context is not known."""
        self.sole: Context | None = None
        self.primary: dict[int, int] = {}
        self.references: Counter[int] = Counter()
        self.threads: dict[int, Thread] = {}
        self.streams: dict[int, CreatedStream] = {}
        self.events: dict[int, tuple[int, Stream, int]] = {}
        self.captures: dict[Stream, Capture] = {}
        self.graphs: dict[int, Graph] = {}
        self.nodes_destroyed = False
        self.allocations: dict[tuple[Family, int], Allocation] = {}
        self.ranges: dict[int, int] = {}

    def _begun_by(self, thread: Thread) -> Capture | None:
        capture = thread.capture
        return capture if capture and self.captures.get(capture.stream) is capture else None

    def _top(self, thread: Thread) -> Context | None:
        """Return the context that is current, by the stack or because it is the only one."""
        found = None
        if 0 < len(thread.stack) <= DEPTH:
            found = self.contexts.get(thread.stack[-1])
        return found or self.sole

    def _where(self, thread: Thread, call: dict[str, Any]) -> tuple[Context | None, int, Stream]:
        context = self._top(thread)
        if "context" in call:
            context = self.contexts.get(call["context"])
        stream: Stream = MIXED
        handle = call.get("stream")
        if handle is not None:
            per_thread = handle == 2 or (handle == 0 and call["symbol"].endswith("_ptsz"))
            if per_thread:
                if context and thread.own[0] is not context:
                    thread.own = (context, thread.own[1] + 1)
                stream = ("own", thread, *thread.own) if context else MIXED
            elif handle <= 2:
                stream = ("legacy", context) if context else MIXED
            else:
                created = self.streams.get(handle)
                if created is None:
                    created = self.streams[handle] = CreatedStream(context)
                context = created.context or context
                stream = ("made", created)
        return context, context.device if context else UNKNOWN, stream

    # Contexts

    def _made(self, handle: int, device: int, *, green: bool = False) -> None:
        context = Context(device, green)
        (self.greens if green else self.contexts)[handle] = context
        live = [each for each in self.all_contexts if each.live]
        self.all_contexts.append(context)
        self.sole = None if live else context

    def _gone(self, context: Context | None) -> None:
        if context is None or not context.live:
            return
        context.live = False
        context.requested.clear()
        self.sole = None
        for table in (self.contexts, self.greens):
            for handle in [h for h, each in table.items() if each is context]:
                del table[handle]

    def _cuDevicePrimaryCtxRetain(self, call: dict[str, Any], *_: Any) -> None:
        if call["code"]:
            return
        device = call["device"]
        self.references[device] += 1
        if self.primary.get(device) != call["made"]:
            self.primary[device] = call["made"]
            self._made(call["made"], device)

    def _release(self, device: int) -> None:
        if self.references[device]:
            self.references[device] -= 1
            if not self.references[device]:
                self._gone(self.contexts.get(self.primary.pop(device, 0)))

    def _cuDevicePrimaryCtxRelease_v2(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self._release(call["device"])

    def _cuDevicePrimaryCtxReset_v2(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.references[call["device"]] = 0
            self._gone(self.contexts.get(self.primary.pop(call["device"], 0)))

    def _cuCtxCreate_v2(self, call: dict[str, Any], thread: Thread, *_: Any) -> None:
        if not call["code"]:
            self._made(call["made"], call["device"])
            thread.stack.append(call["made"])

    def _cuCtxDestroy_v2(self, call: dict[str, Any], thread: Thread, *_: Any) -> None:
        if call["code"]:
            return
        if thread.stack and thread.stack[-1] == call["handle"]:
            thread.stack.pop()
        self._gone(self.contexts.get(call["handle"]))

    def _cuCtxSetCurrent(self, call: dict[str, Any], thread: Thread, *_: Any) -> None:
        if not call["code"]:
            thread.stack[-1:] = [call["handle"]] if call["handle"] else []

    def _cuCtxPushCurrent_v2(self, call: dict[str, Any], thread: Thread, *_: Any) -> None:
        if not call["code"]:
            thread.stack.append(call["handle"])

    def _cuCtxPopCurrent_v2(self, call: dict[str, Any], thread: Thread, *_: Any) -> None:
        if not call["code"]:
            thread.stack.pop()

    def _cuGreenCtxCreate(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:  # and the primary context of its device is held by it
            self.references[call["device"]] += 1
            self._made(call["made"], call["device"], green=True)

    def _cuGreenCtxDestroy(self, call: dict[str, Any], *_: Any) -> None:
        green = self.greens.get(call["handle"])
        if not call["code"] and green:
            self._gone(green)
            self._release(green.device)

    def _cuCtxFromGreenCtx(self, call: dict[str, Any], *_: Any) -> None:
        green = self.greens.get(call["green"])
        if not call["code"] and green:
            self.contexts[call["made"]] = green

    # Streams and events

    def _cuStreamCreate(
        self, call: dict[str, Any], _thread: Thread, context: Context | None, *_: Any
    ) -> None:
        if not call["code"]:
            self.streams[call["made"]] = CreatedStream(context)

    def _cuGreenCtxStreamCreate(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.streams[call["made"]] = CreatedStream(self.greens.get(call["green"]))

    def _cuStreamDestroy_v2(self, call: dict[str, Any], *_: Any) -> None:
        created = self.streams.pop(call["handle"], None)
        if call["code"] and created:  # it stays, with what it had known only as mixed
            self.streams[call["handle"]] = CreatedStream(created.context)

    def _drained(self, device: int, stream: Stream) -> None:
        at = self.devices[device]
        if device != UNKNOWN and at.stream == stream and stream != MIXED:
            at.stream = None

    def _cuStreamSynchronize(
        self, call: dict[str, Any], _thread: Thread, context: Context | None, stream: Stream
    ) -> None:
        if not call["code"] and context:
            self._drained(context.device, stream)

    _cuStreamQuery = _cuStreamSynchronize

    def _cuCtxSynchronize(
        self, call: dict[str, Any], _thread: Thread, context: Context | None, *_: Any
    ) -> None:
        if call["code"] or not context:
            return
        here = [c for c in self.all_contexts if c.live and c.device == context.device]
        if len(here) == 1:
            self.devices[context.device].stream = None

    _cuCtxSynchronize_v2 = _cuCtxSynchronize

    def _cuEventRecord(
        self, call: dict[str, Any], thread: Thread, context: Context | None, stream: Stream
    ) -> None:
        if call["code"]:
            self.events.pop(call["event"], None)
        elif context:
            captured = stream in self.captures or self._begun_by(thread)
            vouches = MIXED if captured else stream
            ticket = self.devices[context.device].ticket
            self.events[call["event"]] = (context.device, vouches, ticket)

    def _cuEventSynchronize(self, call: dict[str, Any], *_: Any) -> None:
        mark = self.events.get(call["event"])
        if not call["code"] and mark and self.devices[mark[0]].ticket == mark[2]:
            self._drained(mark[0], mark[1])

    _cuEventQuery = _cuEventSynchronize

    def _cuEventDestroy_v2(self, call: dict[str, Any], *_: Any) -> None:
        self.events.pop(call["event"], None)
