"""What a rule looks at: one workload on one device, now and as it usually is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpugauge.diagnosis.baseline import Baseline, Phase
from gpugauge.diagnosis.figures import Figures
from gpugauge.model.abi import Slot
from gpugauge.model.device import Device
from gpugauge.model.finding import Evidence, Party
from gpugauge.model.process import Process, ProcessDevice
from gpugauge.model.snapshot import Series, Snapshot
from gpugauge.model.workload import Owner
from gpugauge.settings import DiagnosisSettings, PriceSettings

SAME_WORK = {"threads_per_launch": 1.15, "htod_bytes_per_work": 1.4, "processes": 1.25}
"""How far the shape of the work may differ and still be the same work, only slower."""
SIMILAR_WORK = {"threads_per_launch": 2.0, "htod_bytes_per_work": 2.5, "processes": 1.25}
"""Wider: a server that slows down batches more of what waits."""
SAME_BATCH = {"threads_per_input_byte": 1.15, "threads_per_launch": 2.0, "processes": 1.25}
"""The same batches, with small launches added to each: what is copied in tells them apart."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Somebody else on the same device."""

    owner: Owner
    process_number: int
    pid: int
    command: str
    now: Figures
    busy_before: Callable[[float], float]
    """Its busy share in the minute that ended so many seconds ago."""


Peer = tuple[Owner, str, int, Figures]
"""Owner, device, pid, figures."""
Holder = tuple[Owner, int, int, str]
"""Owner, bytes held on the device, pid, command."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One workload on one device at one moment."""

    snapshot: Snapshot
    settings: DiagnosisSettings
    price: PriceSettings
    owner: Owner
    gpu_uuid: str
    device: Device | None
    of: Series | ProcessDevice
    processes: Sequence[tuple[Process, ProcessDevice]]
    """Its processes on this device, where the snapshot has them."""
    now: Figures | None
    """None until there is a whole window."""
    usual_seconds_ago: float
    """Since the last window that was learned as usual."""
    recent_work_per_second: float
    """In the second half of the window."""
    baseline: Baseline
    starting: bool
    """Its processes are too young to be compared."""
    after_gap: bool
    idle_for_seconds: float
    """Since it last gave the device work, or since it was first seen."""
    quiet_processes: dict[int, float]
    """Seconds since each process last gave work, by process number."""
    checkpoint_seconds: float | None
    """Since the last copy to the host that was far larger than usual."""
    burst_seconds: float | None
    """How long such copies have gone on by now; None where there are none."""
    neighbours: Sequence[Neighbour]
    peers: Sequence[Peer]
    """All of the same workload, on any device here, itself among them."""
    errors: Mapping[tuple[Slot, int], int]
    """Calls that failed within the last window, by slot and CUresult."""
    holders: Sequence[Holder]
    """Others that hold memory on the device."""
    given: Sequence[str]
    """Devices that the kubelet gave to its pod."""
    claimed: bool
    """NVML does not list its processes on the device that they name."""
    now_seconds: float
    """What the window covers."""
    open_now: bool
    """This rule has a finding open: what it asks for may be a little weaker."""
    incomplete: tuple[str, ...] = field(default=())
    """What about this case is known to be incomplete."""

    def phase(self, factors: dict[str, float]) -> Phase | None:
        """Return the usual phase that does the same work, where one is known."""
        if self.now is None:
            return None
        return self.baseline.like(self.now, self.settings.baseline_windows, factors)

    def rise(self, neighbour: Neighbour) -> float:
        """Return how much busier a neighbour is than when what is usual was learned last."""
        return neighbour.now.busy_ratio - neighbour.busy_before(self.usual_seconds_ago)

    def slack(self, threshold: float) -> float:
        """Return a threshold, a quarter lower while the finding is open: hysteresis."""
        return threshold * 0.75 if self.open_now else threshold

    def slack_factor(self, factor: float) -> float:
        """Return a factor above 1 with the same hysteresis."""
        return 1 + (factor - 1) * 0.75 if self.open_now else factor

    @property
    def why_not(self) -> str:
        """Why nothing can be compared now; "" if it can."""
        if self.now is None or self.after_gap:
            return "a whole window of snapshots without a gap"
        if self.starting:
            return "processes that are past their start"
        if not self.baseline.known(self.settings.baseline_windows):
            return "enough time to learn what is usual for this workload"
        return ""

    def neighbour_parties(self) -> tuple[Party, ...]:
        """Return who else is active on the device, with shares, who became busier first."""
        assert self.now is not None  # noqa: S101 - for the type checker
        work = self.now.work_per_second + sum(n.now.work_per_second for n in self.neighbours)
        active = [n for n in self.neighbours if n.now.busy_ratio > 0]
        active.sort(key=self.rise, reverse=True)
        return tuple(
            Party(
                owner=n.owner,
                process_number=n.process_number,
                pid=n.pid,
                command=n.command,
                role="neighbour",
                demand_ratio=n.now.work_per_second / work if work else None,
                busy_ratio=min(1.0, n.now.busy_ratio),
            )
            for n in active[:8]
        )


def lost_ratio(now: Figures, phase: Phase) -> float:
    """Return the part of the usual work that is missing; 0 where it is within its spread."""
    usual = phase.usual.work_per_second
    if not usual or now.work_per_second >= phase.work_low * 0.98:
        return 0.0
    return 1 - now.work_per_second / usual


def grown(now: float | None, before: float | None) -> float:
    """Return now / before, 1 where either is not known or there is nothing to grow from."""
    return now / before if now is not None and before else 1.0


def more(now: float | None, before: float | None) -> float:
    """Return now - before, 0 where either is not known."""
    return now - before if now is not None and before is not None else 0.0


def compare(name: str, unit: str, now: float | None, before: float | None) -> tuple[Evidence, ...]:
    """Return a line of evidence, none where it is not known."""
    return () if now is None else (Evidence(name=name, unit=unit, now=now, before=before),)
