"""A process that is followed from its first traced call to its reaping."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpugauge.model.abi import Slot
from gpugauge.model.workload import NOBODY, Owner
from gpugauge.state.issue import IssueCost
from gpugauge.state.slot import ProcessSlot
from gpugauge.state.split import TimeSplit

Errors = dict[tuple[Slot, int], int]


@dataclass(slots=True)
class Published:
    """What of one place was already added to a series."""

    wide: int = 0
    queue_ns: int = 0
    idle_ns: int = 0
    errors: Errors = field(default_factory=dict)


@dataclass(slots=True)
class TrackedPlace:
    """One device of one process."""

    gpu_uuid: str
    wide: int = 0
    lanes: tuple[int, ...] = ()
    issue: IssueCost = field(default_factory=IssueCost)
    idle_ns: int | None = None
    errors: Errors = field(default_factory=dict)
    active: bool = False
    claimed: bool = False
    context_bytes: int | None = None
    published: Published = field(default_factory=Published)


@dataclass(slots=True)
class Tracked:
    """One process."""

    slot: ProcessSlot
    slot_index: int
    complete: bool
    tenant_supplied: bool
    owner: Owner = NOBODY
    places: dict[int, TrackedPlace] = field(default_factory=dict)
    split: TimeSplit = field(default_factory=TimeSplit)
    blocked_wall_ns: int = 0
    split_published: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    gone: bool = False
    """Ended without the programs having told: found by its pid."""
    held: bool = False
    """Its counts wait for its owner."""
    end_told: bool = False
    """It ended and is held: a snapshot has shown its end, and the next ones do not."""

    @property
    def alive(self) -> bool:
        """True until the programs or /proc said otherwise."""
        return not (self.gone or self.slot.ended)

    def observed_ns(self, now_ns: int) -> int:
        """Return how long it was observed."""
        end_ns = self.slot.ended_ns if self.slot.ended and self.slot.ended_ns else now_ns
        return max(0, end_ns - self.slot.first_call_ns)
