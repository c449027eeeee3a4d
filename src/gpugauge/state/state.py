"""The state of the agent: one tick in, one frozen Snapshot out."""

from __future__ import annotations

from collections.abc import Mapping

from gpugauge import __version__
from gpugauge.ebpf.layout import Layout
from gpugauge.model.abi import Loss
from gpugauge.model.device import Inventory
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import SNAPSHOT_VERSION, AgentHealth, Snapshot
from gpugauge.model.workload import UNKNOWN
from gpugauge.state.context_cost import ContextCosts
from gpugauge.state.facts import Facts
from gpugauge.state.ledger import Ledger, OwnerKey, owner_key
from gpugauge.state.opened import OpenCalls
from gpugauge.state.processes import Processes
from gpugauge.state.raw import Chunks, RawTick
from gpugauge.state.requested import RequestedMemory
from gpugauge.state.sharing import device_use
from gpugauge.state.tracked import Tracked
from gpugauge.state.views import (
    CLAIM_GRACE_NS,
    Extra,
    process_view,
    series_view,
    time_view,
)


class State:
    """Everything that lasts from tick to tick. For one thread."""

    def __init__(
        self,
        layout: Layout,
        *,
        symbols: tuple[str, ...],
        known_codes: frozenset[int],
        retire_ns: int,
    ) -> None:
        """Make an empty state.

        Args:
            layout: Of the loaded BPF object.
            symbols: The function table's, in the order of its rows.
            known_codes: What is a CUresult; anything else is `other`.
            retire_ns: How long a series outlives its last process.
        """
        self.processes = Processes(layout, known_codes)
        self._open_calls = OpenCalls(layout, symbols)
        self._memory = RequestedMemory(layout)
        self._ledger = Ledger(retire_ns)
        self._number = 0
        self._last_ns = self._started_ns = 0
        self._context_costs = ContextCosts()

    def tick(self, raw: RawTick, facts: Facts) -> Snapshot:
        """Take in one read of the maps and return the snapshot."""
        now_ns = raw.time_monotonic_ns
        open_calls = self._open_calls.read(raw.threads, now_ns)
        self.processes.update(raw, facts, open_calls)
        extra = Extra(
            open_calls,
            self._memory.read(raw.memories),
            self._memory.untracked,
            {
                (listed.pid, device.uuid): listed.memory_held_bytes
                for device in facts.inventory.devices
                for listed in device.processes or ()
            },
        )
        identities = self.processes.identities
        followed = tuple(self.processes.by_number.values())
        self.processes.hold_back(now_ns)
        for process in followed:
            self._judge(process, facts, now_ns)
            if not process.owner.traced:
                continue  # what it called before its owner was known is not told either
            if not process.held:
                self._ledger.add(process, now_ns)
        self._ledger.retire(now_ns)
        views = tuple(
            process_view(p, now_ns, self.processes.reading, extra, identities.contexts(number))
            for number, p in self.processes.by_number.items()
            if p.owner.traced and not p.end_told
        )
        for process in followed:
            process.end_told |= process.held and not process.alive
        return self._snapshot(raw, facts, views)

    def saw(
        self, inventory: Inventory, now_ns: int, memories: Chunks, made: Mapping[int, int]
    ) -> None:
        """Take in a new answer of NVML: a short process may be gone at the next tick.

        Args:
            inventory: The answer.
            now_ns: When it was given, CLOCK_MONOTONIC.
            memories: The map of requested memory, read after it.
            made: Process numbers by pid, of those that made a context just now.
        """
        self.processes.identities.saw(inventory, now_ns)
        followed = self.processes.by_number.values()
        numbers = {p.slot.pid: p.slot.number for p in followed if p.alive} | dict(made)
        self._context_costs.learn(inventory, memories, numbers)

    def ended(self) -> tuple[Tracked, ...]:
        """Return processes that ended: the agent reaps their rows, then calls `reap`."""
        return tuple(p for p in self.processes.by_number.values() if not (p.alive or p.held))

    def reap(self, number: int) -> None:
        """Forget a process whose rows are gone."""
        self.processes.reap(number)

    def _judge(self, process: Tracked, facts: Facts, now_ns: int) -> None:
        """Say of each place whether it is only claimed, and what its context costs."""
        identities = self.processes.identities
        pid = process.slot.pid
        seen_ns = now_ns - facts.inventory.age_ns
        for at in process.places.values():
            if at.gpu_uuid == UNKNOWN:
                continue
            settled = seen_ns - process.slot.first_call_ns > CLAIM_GRACE_NS
            if process.alive and settled:
                at.claimed = identities.listed(pid, at.gpu_uuid) is False
            if process.complete:
                at.context_bytes = self._context_costs.of(process.slot.number, at.gpu_uuid)

    def _snapshot(self, raw: RawTick, facts: Facts, processes: tuple[Process, ...]) -> Snapshot:
        now_ns = raw.time_monotonic_ns
        live: dict[tuple[OwnerKey, str], list[ProcessDevice]] = {}
        for process in processes:
            if process.alive:
                for use in process.devices:
                    name = (owner_key(process.owner), use.gpu_uuid)
                    live.setdefault(name, []).append(use)
        reading, lanes = self.processes.reading, self.processes.counts.lanes
        interval_ns = now_ns - self._last_ns if self._last_ns else 0
        self._number += 1
        self._last_ns = now_ns
        self._started_ns = self._started_ns or now_ns
        devices = facts.inventory.devices
        simulated = facts.agent.simulated or any(device.simulated for device in devices)
        return Snapshot(
            version=SNAPSHOT_VERSION,
            agent_version=__version__,
            node=facts.node,
            simulated=simulated,
            number=self._number,
            time_unix_ns=facts.time_unix_ns,
            time_monotonic_ns=now_ns,
            interval_ns=interval_ns,
            driver_version=facts.inventory.driver_version,
            cuda_version=facts.inventory.cuda_version,
            linux_version=facts.linux_version,
            processes=processes,
            series=tuple(
                series_view(total, tuple(live.get(name, ())), reading, lanes)
                for name, total in self._ledger.series.items()
            ),
            times=tuple(time_view(total) for total in self._ledger.times.values()),
            devices=devices,
            device_use=device_use(devices, processes),
            hosts=facts.hosts,
            entitlements=facts.entitlements,
            agent=self._health(raw, facts),
        )

    def _health(self, raw: RawTick, facts: Facts) -> AgentHealth:
        agent = facts.agent
        words = memoryview(raw.losses).cast("Q")
        followed = self.processes.by_number.values()
        return AgentHealth(
            attach_mode=agent.attach_mode,
            probes=agent.probes,
            libraries=agent.libraries,
            losses={loss: words[loss] for loss in Loss},
            unprobed_processes=agent.unprobed_processes,
            incomplete_processes=sum(p.alive and not p.complete for p in followed),
            hits=self._open_calls.hits
            + self.processes.retired_hits
            + sum(p.slot.hits for p in followed),
            probe_cost_ns=agent.probe_cost_ns,
            tick_ns=agent.tick_ns,
            tick_late=agent.tick_late,
            bpf_memory_bytes=agent.bpf_memory_bytes,
            history_bytes=agent.history_bytes,
            cpu_ns=agent.cpu_ns,
            rss_bytes=agent.rss_bytes,
            nvml_error=facts.inventory.error,
            pods_error=agent.pods_error,
            unresolved=agent.unresolved,
            ready=agent.ready,
            started_ns=self._started_ns,
        )
