"""The processes that are followed, brought up to date at each tick."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gpugauge.ebpf.layout import Layout
from gpugauge.model.abi import PLACE_UNKNOWN
from gpugauge.model.workload import NOBODY, UNKNOWN
from gpugauge.state.counts import CountsTable
from gpugauge.state.facts import Facts
from gpugauge.state.identity import Identities
from gpugauge.state.raw import RawTick
from gpugauge.state.reading import CountsReading
from gpugauge.state.requested import read_errors
from gpugauge.state.slot import ProcessSlot, SlotReading
from gpugauge.state.tracked import Tracked, TrackedPlace

HOLD_NS = 5_000_000_000
"""So long the counts of a process are held back while its owner is looked up."""
HOLD_PENDING_NS = 30_000_000_000
"""So long where the pod is not listed yet: a list or its next change comes within seconds, and
an API server that is down for hours must not hide what runs."""
HELD_ENDED_LIMIT = 256
"""So many ended processes keep their rows while they wait: a flood of them must not."""


class Processes:
    """All processes by number."""

    def __init__(self, layout: Layout, known_codes: frozenset[int]) -> None:
        self._slots = SlotReading(layout)
        self._known_codes = known_codes
        self.reading = CountsReading(layout)
        self.counts = CountsTable(layout)
        self.identities = Identities()
        self.by_number: dict[int, Tracked] = {}
        self.retired_hits = 0

    def update(self, raw: RawTick, facts: Facts, open_at: Collection[tuple[int, int]] = ()) -> None:
        """Take in one tick; `open_at` are (process number, place) where calls are open now."""
        self._slots.turn()
        self.reading.turn()
        self.counts.lanes.turn()
        self.counts.update(raw.process_counts, raw.thread_counts)
        self.identities.update(raw.devices, raw.contexts, facts.inventory)
        for index, data in raw.slots.items():
            slot = self._slots.read(data)
            if slot.number:
                self._see(index, slot, facts)
        errors = read_errors(raw.errors, self._known_codes)
        wide = self.counts.by_process()
        met: dict[int, set[int]] = {}
        for number, place in (*errors, *open_at):
            met.setdefault(number, set()).add(place)
        for number, process in self.by_number.items():
            process.gone = number in facts.gone
            self._bring_up(
                process, wide.get(number, {}), met.get(number, ()), raw.time_monotonic_ns
            )
            for place, at in process.places.items():
                at.errors = errors.get((number, place), at.errors)

    def reap(self, number: int) -> Tracked | None:
        """Forget a process that ended; its totals stay in the ledger."""
        self.counts.forget(number)
        process = self.by_number.pop(number, None)
        if process is not None:
            self.retired_hits += process.slot.hits
        return process

    def _see(self, index: int, slot: ProcessSlot, facts: Facts) -> None:
        process = self.by_number.get(slot.number)
        if process is None:
            origin = facts.origin_of(slot.pid)
            process = self.by_number[slot.number] = Tracked(
                slot=slot,
                slot_index=index,
                complete=origin.complete,
                tenant_supplied=origin.tenant_supplied,
            )
        process.slot = slot
        owner = process.owner
        # Asked again while it lives: the pod may become known late, or opt out meanwhile.
        if not slot.ended_ns or not owner.pod or owner.reason:
            process.owner = facts.owner_of(slot.pid, slot.cgroup_id)

    def _bring_up(
        self, process: Tracked, wide: dict[int, int], met: Iterable[int], now_ns: int
    ) -> None:
        slot = process.slot
        end_ns = slot.ended_ns or now_ns
        contexts = self.identities.contexts_by_place(slot.number)
        for place in self._used(wide, contexts).union(met):
            if place not in process.places:
                process.places[place] = TrackedPlace(gpu_uuid=UNKNOWN)
        idle: dict[int, int | None] = {}
        lost_sight = slot.places[PLACE_UNKNOWN].ticket > 0
        for place, at in process.places.items():
            if at.gpu_uuid == UNKNOWN:
                at.gpu_uuid = self.identities.gpu_uuid(slot, place)
            self._count(at, wide.get(place, 0))
            state = slot.places[place]
            if place != PLACE_UNKNOWN and (state.drained_ns or at.idle_ns is not None):
                # Work on an unknown device may be on this one: then nothing is known idle.
                until_ns = at.idle_ns if lost_sight else state.idle_until(end_ns)
                at.idle_ns = max(at.idle_ns or 0, until_ns or 0)
            if state.ticket or state.contexts or place in contexts:
                idle[place] = None if lost_sight else at.idle_ns
        process.blocked_wall_ns = max(process.blocked_wall_ns, slot.blocked_until(end_ns))
        process.split.update(process.observed_ns(now_ns), process.blocked_wall_ns, idle)

    def _used(self, wide: dict[int, int], contexts: Mapping[int, int]) -> set[int]:
        """Return places with a context, or with calls that a place has to do with.

        Calls before the first context (its making, streams, modules) are on no device, unless
        they fail or do not return.
        """
        used = {place for place, count in contexts.items() if count and place != PLACE_UNKNOWN}
        for place, sums in wide.items():
            if place not in used and (
                place != PLACE_UNKNOWN or self.reading.works(self.counts.lanes.values(sums))
            ):
                used.add(place)
        return used

    def _count(self, at: TrackedPlace, wide: int) -> None:
        at.active = False
        if wide == at.wide:
            return
        before, at.wide = at.lanes, wide
        at.lanes = self.counts.lanes.values(wide)
        reading = self.reading
        at.active = reading.worked(before, at.lanes)
        fresh, fresh_ns = reading.fresh_launches(at.lanes)
        at.issue.update(fresh, fresh_ns, reading.deep_launches(at.lanes))

    def hold_back(self, now_ns: int) -> None:
        """Decide whose counts wait for their owner."""
        ended = 0
        for process in self.by_number.values():
            process.held = process.owner.traced and self._waits(process, now_ns)
            if process.held and not process.alive:
                ended += 1
                process.held = ended <= HELD_ENDED_LIMIT

    @staticmethod
    def _waits(process: Tracked, now_ns: int) -> bool:
        """Return whether its counts wait for its owner: what was added to one stays there."""
        age_ns = now_ns - process.slot.first_call_ns
        if process.owner is NOBODY:
            return process.alive and age_ns < HOLD_NS
        return process.owner.pending and age_ns < HOLD_PENDING_NS
