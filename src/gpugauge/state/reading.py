"""What the lanes of struct counts mean: from numbers to the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpugauge.ebpf.layout import Layout
from gpugauge.model import abi
from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import Histogram, Operation
from gpugauge.state.lanes import LANE_BYTES
from gpugauge.state.memo import LanesMemo

SLOTS = tuple(Slot)
CAUSES = tuple(Cause)
WORK_SLOTS = tuple(
    slot
    for slot in Slot
    if slot not in (Slot.CONTEXT, Slot.OTHER, Slot.POLL_READY, Slot.POLL_NOT_READY)
)
"""Calls that give a device work, wait for it, or take of its memory."""


class CountsReading:
    """Where each counter lies in the lanes, by the object's own layout."""

    def __init__(self, layout: Layout) -> None:
        def lane(path: str) -> int:
            return layout.offset("counts", path) // LANE_BYTES

        self._slots = lane("slots")
        self._calls = lane("slots[0].calls") - self._slots
        self._errors = lane("slots[0].errors") - self._slots
        self._bytes = lane("slots[0].bytes") - self._slots
        self._duration = lane("slots[0].duration_ns") - self._slots
        self._slot_lanes = layout.size("slot_counts") // LANE_BYTES
        self._work_calls = tuple(
            self._slots + slot * self._slot_lanes + self._calls for slot in WORK_SLOTS
        )
        self._slot_lanes_at = tuple(
            (slot, at + self._calls, at + self._errors, at + self._bytes, at + self._duration)
            for slot in SLOTS
            for at in [self._slots + slot * self._slot_lanes]
        )
        self._operations = LanesMemo(self._read_operations)
        self._blocked = lane("blocked_ns")
        self._histogram = lane("histogram")
        self._blocked_end = self._blocked + len(CAUSES)
        self._blocked_ns = LanesMemo(self._read_blocked_ns)
        self._histograms = LanesMemo(self._read_histograms)
        self._issue_histogram = lane("issue_histogram")
        self._issue_sum = lane("issue_sum_ns")
        self._deep_launches = lane("deep_launches")
        self._deep_ns = lane("deep_ns")
        self._graph_nodes = lane("graph_launch_nodes")
        self._graph_unknown = lane("graph_launches_unknown")
        self._launch_threads = lane("launch_threads")
        self.empty = (0,) * (layout.size("counts") // LANE_BYTES)

    def turn(self) -> None:
        """Begin a tick."""
        self._operations.turn()
        self._blocked_ns.turn()
        self._histograms.turn()

    def operations(self, lanes: tuple[int, ...]) -> Mapping[Slot, Operation]:
        """Return the counters of every slot that was called."""
        return self._operations(lanes)

    def _read_operations(self, lanes: tuple[int, ...], _more: int) -> Mapping[Slot, Operation]:
        return MappingProxyType(
            {
                slot: Operation(calls, lanes[errors], lanes[size], lanes[duration])
                for slot, at, errors, size, duration in self._slot_lanes_at
                if (calls := lanes[at])
            }
        )

    def calls(self, lanes: tuple[int, ...], slot: Slot) -> int:
        """Return the calls of one slot."""
        return lanes[self._slots + slot * self._slot_lanes + self._calls]

    def works(self, lanes: tuple[int, ...]) -> bool:
        """Return whether anything was called that a device has to do with."""
        return any(lanes[at] for at in self._work_calls)

    def worked(self, before: tuple[int, ...], now: tuple[int, ...]) -> bool:
        """Return whether work was submitted or waited for in between."""
        before = before or self.empty
        return any(before[at] != now[at] for at in self._work_calls)

    def blocked_ns(self, lanes: tuple[int, ...], queue_ns: int) -> Mapping[Cause, int]:
        """Return blocked time by cause; that of the launch queue is computed elsewhere."""
        return self._blocked_ns(lanes, queue_ns)

    def _read_blocked_ns(self, lanes: tuple[int, ...], queue_ns: int) -> Mapping[Cause, int]:
        found = dict(zip(CAUSES, lanes[self._blocked : self._blocked_end], strict=True))
        found[Cause.LAUNCH_QUEUE] += queue_ns
        return MappingProxyType(found)

    def histograms(self, lanes: tuple[int, ...], queue_ns: int) -> Mapping[Cause, Histogram]:
        """Return durations of calls that waited, by cause."""
        return self._histograms(lanes, queue_ns)

    def _read_histograms(self, lanes: tuple[int, ...], queue_ns: int) -> Mapping[Cause, Histogram]:
        found: dict[Cause, Histogram] = {}
        size = abi.HISTOGRAM_BUCKETS
        for cause in CAUSES:
            at = self._histogram + cause * size
            counts = lanes[at : at + size]
            if any(counts):
                sum_ns = lanes[self._blocked + cause]
                if cause is Cause.LAUNCH_QUEUE:
                    sum_ns += queue_ns
                found[cause] = Histogram(counts=counts, sum_ns=sum_ns)
        return MappingProxyType(found)

    def fresh_launches(self, lanes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return counts and summed durations (ns) of fresh launches, by issue bucket."""
        size = abi.ISSUE_BUCKETS
        return (
            lanes[self._issue_histogram : self._issue_histogram + size],
            lanes[self._issue_sum : self._issue_sum + size],
        )

    def deep_launches(self, lanes: tuple[int, ...]) -> tuple[int, int]:
        """Return calls and summed durations (ns) of launches deep in the queue."""
        return lanes[self._deep_launches], lanes[self._deep_ns]

    def graphs(self, lanes: tuple[int, ...]) -> tuple[int, int]:
        """Return (launch nodes of graphs launched, graph launches with unknown nodes)."""
        return lanes[self._graph_nodes], lanes[self._graph_unknown]

    def launch_threads(self, lanes: tuple[int, ...]) -> int:
        """Return grid times block, summed over launches."""
        return lanes[self._launch_threads]
