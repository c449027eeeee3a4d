"""What the counters must say after a program of calls: the meaning of docs/signals.md, in Python.

It takes in each call as it was made, with its result, and shares no code and no table with what it
judges. Handles are what the driver gave out: the newest object of a value owns it.
"""

from __future__ import annotations

from typing import Any

from gpugauge.model.abi import Family, Slot
from tests.signals.calls import FREES
from tests.signals.reference_places import Places
from tests.signals.reference_rows import (
    FAMILY,
    KEEPS_CAPTURE,
    MIXED,
    NOT_READY,
    SLOTS,
    SPACE,
    SUBMITS,
    UNKNOWN,
    UNSEEN,
    Allocation,
    Capture,
    Context,
    Graph,
    Stream,
    Thread,
)


class Reference(Places):
    """One process."""

    def take(self, call: dict[str, Any]) -> None:
        """Take in a call that returned."""
        symbol, code = call["symbol"], call["code"]
        if not symbol:
            self.threads.pop(call["thread"], None)
            return
        if symbol in UNSEEN:
            return
        thread = self.threads.setdefault(call["thread"], Thread())
        context, device, stream = self._where(thread, call)
        slot = SLOTS.get(symbol, Slot.OTHER)
        before = self._before(call, context, device, stream)
        capture = None
        if symbol in SUBMITS:
            capture = self.captures.get(stream) or self._begun_by(thread)
            if capture is None and device != UNKNOWN:
                at = self.devices[device]
                at.ticket += 1
                at.stream = stream if at.stream in (None, stream) else MIXED
        if before is not None:
            device = before
        change = getattr(self, f"_{symbol}", None)
        if symbol.startswith(("cuMemAlloc", "cuMemHostRegister", "cuArrayCreate", "cuMemCreate")):
            if capture is None:
                self._allocate(call, context, device)
        elif change:
            change(call, thread, context, stream)
        self._count(call, slot, device, capture)
        if code == 0 and symbol == "cuGraphLaunch":
            self._launched(call["graph"], device, capture)

    def _count(
        self, call: dict[str, Any], slot: Slot, device: int, capture: Capture | None
    ) -> None:
        code, at = call["code"], self.devices[device]
        if slot is Slot.POLL_READY and code == NOT_READY:
            at.calls[Slot.POLL_NOT_READY] += 1
            return
        if code:
            at.errors[slot, code if code != 12345 else -1] += 1
        elif capture and slot is Slot.LAUNCH:
            capture.launches += 1
        counted = Slot.CAPTURED if capture else slot
        at.calls[counted] += 1
        if slot is Slot.LAUNCH and not capture:
            at.launch_threads += call["threads"]  # whether or not it succeeds
        elif not code and slot is not Slot.LAUNCH:
            at.bytes[counted] += call.get("bytes", 0)

    # Before the driver runs

    def _before(
        self, call: dict[str, Any], context: Context | None, device: int, stream: Stream
    ) -> int | None:
        """Return the device of a call that says itself where it is."""
        symbol = call["symbol"]
        if symbol in ("cuEventSynchronize", "cuEventQuery"):
            mark = self.events.get(call["event"])
            return mark[0] if mark else None
        if symbol in (*FREES.values(), "cuMemFreeAsync"):
            found = self.allocations.get((self._space(symbol), call["handle"]))
            return found.device if found and not self._is_captured(call, stream) else None
        if symbol == "cuStreamDestroy_v2":
            created = self.streams.get(call["handle"])
            for at in self.devices.values():
                if at.stream == ("made", created):
                    at.stream = MIXED
        return None

    def _is_captured(self, call: dict[str, Any], stream: Stream) -> bool:
        if call["symbol"] not in SUBMITS:
            return False
        thread = self.threads[call["thread"]]
        return stream in self.captures or self._begun_by(thread) is not None

    @staticmethod
    def _space(symbol: str) -> Family:
        for kind, name in FREES.items():
            if name == symbol:
                return FAMILY[kind]
        return Family.DEVICE

    # Memory

    def _row(self, context: Context | None) -> Context:
        return context or self.nowhere

    def _requested(self, row: Context, family: Family, bytes_: int) -> None:
        row.requested[family] += bytes_
        row.peak[family] = max(row.peak[family], row.requested[family])

    def _drop(self, found: Allocation) -> None:
        row = self._row(found.context)
        if row.live:
            row.requested[found.family] -= found.bytes
            self.devices[found.device].frees[found.family] += 1

    def _allocate(self, call: dict[str, Any], context: Context | None, device: int) -> None:
        family = FAMILY[call["family"]]
        at = self.devices[device]
        if call["code"]:
            at.failures[family] += 1
            return
        key = (SPACE.get(family, family), call["made"])
        if key in self.allocations:
            self._drop(self.allocations[key])
        self.allocations[key] = Allocation(call["bytes"], context, device, family)
        at.allocations[family] += 1
        self._requested(self._row(context), family, call["bytes"])

    def _free(
        self, call: dict[str, Any], _thread: Thread, _context: Context | None, stream: Stream
    ) -> None:
        key = (self._space(call["symbol"]), call["handle"])
        if call["code"] or key not in self.allocations or self._is_captured(call, stream):
            return
        self._drop(self.allocations.pop(key))

    _cuMemFree_v2 = _cuMemFreeHost = _cuMemHostUnregister = _cuArrayDestroy = _free
    _cuMemFreeAsync = _free

    def _settle(self, handle: int) -> None:
        found = self.allocations[Family.VIRTUAL, handle]
        if not found.references and not found.maps:
            self._drop(self.allocations.pop((Family.VIRTUAL, handle)))

    def _cuMemRelease(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.allocations[Family.VIRTUAL, call["handle"]].references -= 1
            self._settle(call["handle"])

    def _cuMemMap(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.ranges[call["at"]] = call["handle"]
            self.allocations[Family.VIRTUAL, call["handle"]].maps += 1

    def _cuMemUnmap(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            handle = self.ranges.pop(call["at"])
            self.allocations[Family.VIRTUAL, handle].maps -= 1
            self._settle(handle)

    def _cuMemRetainAllocationHandle(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.allocations[Family.VIRTUAL, call["made"]].references += 1

    # Capture and graphs

    def _cuStreamBeginCapture_v2(
        self, call: dict[str, Any], thread: Thread, _context: Context | None, stream: Stream
    ) -> None:
        if not call["code"]:
            thread.capture = self.captures[stream] = Capture(stream)

    _cuStreamBeginCaptureToGraph = _cuStreamBeginCapture_v2

    def _cuStreamEndCapture(
        self, call: dict[str, Any], thread: Thread, _context: Context | None, stream: Stream
    ) -> None:
        if call["code"] in KEEPS_CAPTURE:
            return
        capture = self.captures.pop(stream, None)
        if not call["code"]:
            into = self.graphs.get(call["made"], Graph())
            found = capture or Capture(stream, unknown=True)
            self.graphs[call["made"]] = Graph(
                into.launches + found.launches, into.unknown or found.unknown
            )

    def _cuGraphCreate(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.graphs[call["made"]] = Graph()

    def _cuGraphAddKernelNode_v2(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            self.graphs.setdefault(call["graph"], Graph(unknown=True)).launches += 1

    def _cuGraphAddChildGraphNode(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            child = self.graphs.get(call["child"], Graph(unknown=True))
            graph = self.graphs.setdefault(call["graph"], Graph(unknown=True))
            graph.launches += child.launches
            graph.unknown |= child.unknown

    def _cuGraphDestroyNode(self, call: dict[str, Any], *_: Any) -> None:
        self.nodes_destroyed |= not call["code"]

    def _cuGraphClone(self, call: dict[str, Any], *_: Any) -> None:
        if not call["code"]:
            origin = self.graphs.get(call["graph"], Graph(unknown=True))
            self.graphs[call["made"]] = Graph(
                origin.launches, origin.unknown or self.nodes_destroyed
            )

    _cuGraphInstantiateWithFlags = _cuGraphClone

    def _launched(self, handle: int, device: int, capture: Capture | None) -> None:
        graph = self.graphs.get(handle)
        if capture:
            if graph is None or graph.unknown:
                capture.unknown = True
            else:
                capture.launches += graph.launches
        elif graph is None or graph.unknown:
            self.devices[device].graph_unknown += 1
        else:
            self.devices[device].graph_nodes += graph.launches
