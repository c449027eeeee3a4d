"""One workload on one device, and what the engine remembers of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.baseline import Baseline
from gpugauge.diagnosis.figures import Figures
from gpugauge.diagnosis.history import Track
from gpugauge.diagnosis.hysteresis import RuleState
from gpugauge.model.abi import Slot
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import Series
from gpugauge.model.workload import Owner, Scope

Key = tuple[Owner, str, int]
"""Owner, device, and a process number: 0 for pods and containers, which are seen as a whole."""

CHECKPOINT_BYTES = 256 * 1024 * 1024
CHECKPOINT_FACTOR = 8.0
BURST_GAP_NS = 30_000_000_000


@dataclass(slots=True, eq=False)
class Subject:
    """A workload on a device."""

    key: Key
    baseline: Baseline
    track: Track | None
    first_ns: int
    of: Series | ProcessDevice
    totals: list[float]
    order: int = 0
    """Different for each, so that not all are looked at in one tick."""
    row_ns: int = 0
    """CLOCK_MONOTONIC of the totals."""
    looked: Figures | None = None
    """The window of the last full look, if no rule had anything to say and all could compare."""
    looked_ns: int = 0
    looked_held: float = 0.0
    next_ns: int = 0
    seen_ns: int = 0
    last_work_ns: int = 0
    processes: list[tuple[Process, ProcessDevice]] = field(default_factory=list)
    had_processes: bool = False
    """False where single processes are not known at all, as from Prometheus."""
    quiet_since_ns: dict[int, int] = field(default_factory=dict)
    process_work: dict[int, float] = field(default_factory=dict)
    errors_before: Mapping[tuple[Slot, int], int] = field(default_factory=dict)
    error_events: deque[tuple[int, tuple[Slot, int], int]] = field(default_factory=deque)
    burst_began_ns: int = 0
    burst_last_ns: int = 0
    oldest_open: float = 0.0
    row_seconds: float = 1.0
    now: Figures | None = None
    recent_work_per_second: float = 0.0
    pending: deque[tuple[int, Figures]] = field(default_factory=deque)
    learned_ns: int = 0
    usual_ns: int = 0
    """When the last window was that has been learned as usual."""
    states: dict[str, RuleState] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return self.key[0]

    @property
    def gpu_uuid(self) -> str:
        """Where."""
        return self.key[1]

    @property
    def claimed(self) -> bool:
        """All of its processes only claim to be on the device."""
        return bool(self.processes) and all(device.claimed for _, device in self.processes)

    @property
    def has_ended(self) -> bool:
        """All of its processes have: only its totals are left."""
        return self.had_processes and not any(process.alive for process, _ in self.processes)

    @property
    def pid(self) -> int:
        """Of its first process, 0 where none is known."""
        return self.processes[0][0].pid if self.processes else 0

    @property
    def command(self) -> str:
        """Of its first process."""
        return self.processes[0][0].comm if self.processes else ""

    def move(self, of: Series | ProcessDevice, now_ns: int, seconds: float | None) -> None:
        """Take the next snapshot in.

        Args:
            of: its totals.
            now_ns: CLOCK_MONOTONIC of the snapshot.
            seconds: since the totals before; None where nothing may be compared with them.
        """
        totals = c.totals(of)
        row = c.point(self.totals, totals, seconds) if seconds is not None else None
        before, self.of, self.totals, self.row_ns = self.totals, of, totals, now_ns
        if row is None:
            if totals[c.LAUNCHES : c.ALLOCATIONS] != before[c.LAUNCHES : c.ALLOCATIONS]:
                self.last_work_ns = now_ns  # at some time within the gap
            self.errors_before = of.errors
            if self.track is not None:
                self.track.fine.clear()
            return
        self.row_seconds = row[c.SECONDS]
        if self.track is not None:
            self.track.add(row)
        if row[c.LAUNCHES] or row[c.GRAPH_LAUNCHES] or row[c.HTOD_CALLS] or row[c.DTOH_CALLS]:
            self.last_work_ns = now_ns
        self._note_wait(totals[c.OLDEST_OPEN], row[c.SECONDS])
        self._note_burst(row, now_ns)
        if of.errors:
            for key, count in of.errors.items():
                new = count - self.errors_before.get(key, 0)
                if new > 0:
                    self.error_events.append((now_ns, key, new))
            self.errors_before = of.errors

    def _note_wait(self, oldest: float, seconds: float) -> None:
        # The call that was open is not any more: it came back, this old.
        if self.oldest_open > max(oldest, seconds):
            longest = max(self.baseline.longest_wait_seconds, self.oldest_open)
            self.baseline.longest_wait_seconds = longest
        self.oldest_open = oldest

    def _note_burst(self, row: list[float], now_ns: int) -> None:
        copied = row[c.DTOH_BYTES]
        if copied < CHECKPOINT_BYTES:
            return
        usual = max((p.usual.dtoh_bytes_per_second for p in self.baseline.known(2)), default=0.0)
        if copied < CHECKPOINT_FACTOR * usual * row[c.SECONDS]:
            return
        if now_ns - self.burst_last_ns > BURST_GAP_NS or not self.burst_last_ns:
            self.burst_began_ns = now_ns
        self.burst_last_ns = now_ns

    def move_processes(self, processes: list[tuple[Process, ProcessDevice]], now_ns: int) -> None:
        """Note which of its processes gave work since the snapshot before."""
        self.processes = processes
        self.had_processes |= bool(processes)
        alive = {}
        for process, device in processes:
            work = sum(op.calls for op in device.operations.values())
            number = process.number
            if self.process_work.get(number) != work or number not in self.quiet_since_ns:
                self.quiet_since_ns[number] = now_ns
            alive[number] = float(work)
        self.process_work = alive
        if len(self.quiet_since_ns) > len(alive):
            self.quiet_since_ns = {n: self.quiet_since_ns[n] for n in alive}

    def recent_errors(self, since_ns: int) -> dict[tuple[Slot, int], int]:
        """Return failed calls since then."""
        events = self.error_events
        while events and events[0][0] < since_ns:
            events.popleft()
        found: dict[tuple[Slot, int], int] = {}
        for _, key, count in events:
            found[key] = found.get(key, 0) + count
        return found

    def checkpoint_seconds(self, now_ns: int) -> float | None:
        """Return the time since a short burst of copies to the host, None if there was none."""
        if not self.burst_last_ns or self.burst_last_ns - self.burst_began_ns > 60_000_000_000:
            return None
        return (now_ns - self.burst_last_ns) * 1e-9

    def burst_seconds(self, now_ns: int) -> float | None:
        """Return how long large copies to the host have gone on, None where they do not."""
        if not self.burst_last_ns or now_ns - self.burst_last_ns > BURST_GAP_NS:
            return None
        return (self.burst_last_ns - self.burst_began_ns) * 1e-9


def workload_key(owner: Owner, gpu_model: str, process_number: int) -> tuple[object, ...]:
    """Return what shares a baseline: pods of one workload on devices of one model."""
    if owner.scope is Scope.POD:
        name = owner.workload or owner.pod
        return (owner.scope, owner.namespace, name, owner.container, gpu_model)
    if owner.scope is Scope.CONTAINER:
        return (owner.scope, owner.container_id or owner.container, gpu_model)
    return (owner, gpu_model, process_number)
