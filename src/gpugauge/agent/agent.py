"""The agent: everything it reads, and the tick that makes a snapshot of it."""

from __future__ import annotations

import logging
import platform
import time
from dataclasses import replace

from gpugauge.agent import hosts, usage
from gpugauge.agent.devices import ASK_SECONDS, ASK_SECONDS_AT_LEAST, Devices
from gpugauge.agent.events import Events
from gpugauge.agent.host_sides import HostSides
from gpugauge.agent.libraries import Libraries
from gpugauge.agent.reader import Reader
from gpugauge.agent.refusals import Refusals
from gpugauge.agent.tracer import Tracer
from gpugauge.attribution.attribution import Attribution
from gpugauge.discovery.scan import start_time
from gpugauge.ebpf.proof import Proof, prove
from gpugauge.errors import UnsupportedError
from gpugauge.model.snapshot import Snapshot
from gpugauge.model.workload import Owner
from gpugauge.settings import Settings
from gpugauge.state.facts import AgentFacts, Facts, Origin
from gpugauge.state.state import State
from gpugauge.state.tracked import Tracked
from gpugauge.units import NS_PER_SECOND

LOG = logging.getLogger(__name__)

CONTEXT_SECONDS = 2.0
"""So long NVML is asked often after a context was made: it lists the process some time later,
and what it holds before its first allocation is what a context costs."""
GONE_CHECK_SECONDS = 10.0
"""Processes whose end the programs did not see are looked for this often."""


class Agent:
    """One agent on one node. All methods are for one thread."""

    def __init__(self, settings: Settings) -> None:
        """Load, prove and attach.

        Raises:
            UnsupportedError: This Linux or these privileges cannot do it.
            UnavailableError: A library that the settings name is not there.
        """
        self._settings = settings
        self.tracer = Tracer(settings)
        try:
            self.proof = self._prove()
            self.tracer.returns = self.proof.returns_safe
            self._reader = Reader(self.tracer.loaded)
            self._refusals = Refusals(self._reader.quotas.refused)
            self._events = Events(self.tracer.loaded)
            self.attribution = Attribution(
                node_name=settings.node_name,
                enabled=settings.kubernetes.mode.wanted,
                kubeconfig=settings.kubernetes.kubeconfig,
                kubelet_path=settings.kubernetes.kubelet_path,
                gpu_resources=settings.kubernetes.gpu_resources,
                dra_drivers=settings.kubernetes.dra_drivers,
            )
            only = None
            if settings.attach.libraries:
                only = frozenset(each.file_id for each in hosts.named_libraries(settings))
            self.libraries = Libraries(
                self.tracer,
                scan_seconds=settings.scan_seconds,
                hosts=hosts.finder(settings, self.tracer.vendor),
                only=only,
            )
        except BaseException:
            self.tracer.close()
            raise
        self._devices = Devices(hosts.nvml(settings, self.tracer.vendor))
        self._gone_at = float("-inf")
        self._host_sides = HostSides(self.attribution)
        self._gone: frozenset[int] = frozenset()
        self._started: dict[int, int] = {}
        self._state = State(
            self.tracer.loaded.layout,
            symbols=self.tracer.symbols,
            known_codes=frozenset(self.tracer.vendor.results),
            retire_ns=int(settings.series.retire_seconds * NS_PER_SECOND),
        )
        self._tick_ns = 0
        self._tick_late = 0
        self._made: dict[int, tuple[int, float]] = {}
        """Processes that made a context just now: (number, until when to ask), by pid."""
        self.history_bytes = 0
        self.news = False
        """A process began or ended since the last tick."""

    def start(self, *, probes_on: bool = True) -> None:
        """Attach to what is there unless probes are off, and begin to watch for more."""
        self.attribution.start()
        self.libraries.start(on=probes_on)

    def tick(self) -> Snapshot:
        """Read everything once and return the snapshot."""
        began_ns = time.monotonic_ns()
        self.take_events()
        self.news = False
        raw = self._reader.read()
        self._ask_nvml()
        self._look_for_gone()
        snapshot = self._with_gaps(self._state.tick(raw, self._facts()))
        self._refusals.look(snapshot.agent.losses, self._owners_by_cgroup)
        self._after()
        self._tick_ns = time.monotonic_ns() - began_ns
        if self._tick_ns > self._settings.tick_seconds * NS_PER_SECOND:
            self._tick_late += 1
        return snapshot

    def take_events(self) -> None:
        """Take what Linux told of ended processes: their libraries may be released."""
        happened = self._events.read()
        self.news |= bool(
            happened.first_calls or happened.ended or happened.executed or happened.contexts
        )
        for pid in happened.ended:
            self.libraries.exited(pid)
        for pid in happened.executed:
            self.libraries.executed(pid)
        for checkpoint in happened.locks:
            self.libraries.checkpoint_begins(checkpoint)
        for checkpoint in happened.unlocks:
            self.libraries.checkpoint_ends(checkpoint)
        for links in happened.doubled:
            self.libraries.doubled(links)
        if happened.contexts:
            # NVML lists the process now; a short one is gone at the next tick.
            until = time.monotonic() + CONTEXT_SECONDS
            self._made |= {pid: (number, until) for pid, number in happened.contexts.items()}
        if self._made:
            self._ask_nvml(ASK_SECONDS_AT_LEAST)

    @property
    def asks_soon(self) -> bool:
        """Whether NVML is asked often now, for what new contexts hold."""
        return bool(self._made)

    def wait(self, timeout_s: float) -> bool:
        """Wait until something rare happened in a traced process, at most so long."""
        return self._events.wait(timeout_s)

    def wake(self) -> None:
        """End the wait; for any thread."""
        self._events.wake()

    def close(self) -> None:
        """Take everything off. Takes a tenth of a second."""
        self.libraries.stop()
        self.attribution.stop()
        self._devices.close()
        self._events.close()
        self._reader.close()
        self.tracer.close()

    def _prove(self) -> Proof:
        proof = prove(self.tracer.mode)
        for fault in proof.faults:
            LOG.warning("proof of probes: %s", fault)
        if not proof.entries_safe:
            raise UnsupportedError(
                "Probes did not behave on a process of our own: " + "; ".join(proof.faults),
                "Report this Linux version; nothing was attached.",
            )
        return proof

    def _ask_nvml(self, every_seconds: float = ASK_SECONDS) -> None:
        devices = self._devices
        in_use = bool(self._made) or self.libraries.in_use
        if devices.ask(in_use=in_use, every_seconds=every_seconds):
            self.libraries.list_devices(devices.listed())
            sizes = [each.memory_total_bytes or 0 for each in devices.inventory.devices]
            self._reader.set_size_limits(max(sizes, default=0), usage.machine_memory_bytes())
            age_ns = devices.inventory.age_ns
            memories = self._reader.memories()
            made = {pid: number for pid, (number, _until) in self._made.items()}
            self._state.saw(devices.inventory, time.monotonic_ns() - age_ns, memories, made)
            self._made = {p: made for p, made in self._made.items() if made[1] > time.monotonic()}

    def _look_for_gone(self) -> None:
        """Find processes that ended without the programs having told."""
        now = time.monotonic()
        if now - self._gone_at < GONE_CHECK_SECONDS:
            return
        self._gone_at = now
        self._gone = frozenset(
            number
            for number, process in self._state.processes.by_number.items()
            if process.alive and start_time(process.slot.pid) < 0
        )

    def _facts(self) -> Facts:
        attribution = self.attribution
        return Facts(
            time_unix_ns=time.time_ns(),
            node=self._settings.node_name or platform.node(),
            linux_version=platform.release(),
            inventory=self._devices.inventory,
            owner_of=self._owner,
            origin_of=self._origin,
            gone=self._gone,
            hosts=self._host_sides.read(self._state.processes.by_number.values()),
            entitlements=attribution.entitlements(self._devices.inventory.devices),
            agent=AgentFacts(
                attach_mode=self.tracer.mode.value,
                probes=self.tracer.probes(),
                libraries=len(self.tracer.libraries()),
                unprobed_processes=self.libraries.unprobed(),
                probe_cost_ns=self._probe_cost_ns(),
                tick_ns=self._tick_ns,
                tick_late=self._tick_late,
                bpf_memory_bytes=self.tracer.memory_bytes,
                history_bytes=self.history_bytes,
                cpu_ns=usage.cpu_ns(),
                rss_bytes=usage.rss_bytes(),
                pods_error="; ".join(attribution.errors.values()),
                unresolved=dict(attribution.unresolved),
                ready=self.libraries.ready,
                simulated=self.tracer.simulated,
            ),
        )

    def _with_gaps(self, snapshot: Snapshot) -> Snapshot:
        attribution = self.attribution
        if not attribution.kubernetes:
            return snapshot
        gaps = attribution.entitlement_gaps(
            snapshot.processes, snapshot.devices, snapshot.entitlements
        )
        known = attribution.entitlements_known
        return replace(snapshot, entitlements_known=known, entitlement_gaps=gaps)

    def _owner(self, pid: int, cgroup_id: int) -> Owner:
        return self.attribution.owner(pid, self._started.get(pid, 0), cgroup_id)

    def _origin(self, pid: int) -> Origin:
        self._started[pid] = max(0, start_time(pid))
        library = self.libraries.library_of(pid)
        return Origin(
            complete=self.libraries.origins.complete(pid),
            tenant_supplied=library is not None and library.tenant_supplied,
        )

    def _probe_cost_ns(self) -> float | None:
        costs = [
            cost.entry_return_ns if cost.entry_return_ns is not None else cost.entry_ns
            for cost in self.proof.costs
        ]
        return max(costs) if costs else None

    def _owners_by_cgroup(self) -> dict[int, Owner]:
        followed = self._state.processes.by_number.values()
        return {process.slot.cgroup_id: process.owner for process in followed}

    def _after(self) -> None:
        """Teach the programs, and reap the rows of processes that ended."""
        interrupted = self.libraries.interrupted()
        for process in self._state.processes.by_number.values():
            if not process.alive:
                continue
            if process.slot.pid in interrupted:
                process.complete = False
            if not process.complete:
                self._reader.set_seen_late(process.slot_index)
            if not process.owner.traced:
                self._reader.set_untraced(process.slot_index)
            known = [p.issue.issue_ns for p in process.places.values() if p.issue.issue_ns]
            if known:
                self._reader.set_issue_ns(process.slot_index, round(min(known)))
        over = [process for process in self._state.ended() if _is_over(process)]
        self._reader.reap({process.slot.number: process.slot_index for process in over})
        for process in over:
            self._state.reap(process.slot.number)
            self._started.pop(process.slot.pid, None)


def _is_over(process: Tracked) -> bool:
    """Return whether no thread of it can make another call.

    Where Linux does not tell the last thread's exit, the end of the first
    thread was taken for it: others may go on.
    """
    return process.slot.threads == 0 or start_time(process.slot.pid) < 0
