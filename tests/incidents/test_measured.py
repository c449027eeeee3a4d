"""The generator's figures are those of the recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugauge.codec.recording import RecordingReader
from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import Operation
from gpugauge.model.snapshot import Series, Snapshot
from tests.incidents import measured
from tests.incidents.measured import Measured

FOLDER = Path(__file__).parent / "recordings"
ALL = {name: value for name, value in vars(measured).items() if isinstance(value, Measured)}
SECOND = 1_000_000_000
NONE = Operation()


def ends(of: Measured) -> tuple[tuple[Snapshot, Series], tuple[Snapshot, Series]]:
    """Return the first and the last snapshot within its seconds, each with its series."""
    began: int | None = None
    inside: list[tuple[Snapshot, Series]] = []
    for snapshot in RecordingReader(FOLDER / f"{of.recording}.jsonl.gz"):
        began = began or snapshot.time_monotonic_ns
        if of.from_s <= (snapshot.time_monotonic_ns - began) / SECOND <= of.until_s:
            inside += [(snapshot, s) for s in snapshot.series
                       if int(s.owner.container_id, 16) == of.container]  # fmt: skip
    return inside[0], inside[-1]


@pytest.mark.parametrize("name", ALL)
def test_a_figure_is_that_of_its_recording(name: str) -> None:
    of = ALL[name]
    (before, first), (after, last) = ends(of)
    seconds = (after.time_monotonic_ns - before.time_monotonic_ns) / SECOND

    def rise(slot: Slot, what: str = "calls") -> int:
        a, b = first.operations.get(slot, NONE), last.operations.get(slot, NONE)
        return int(getattr(b, what) - getattr(a, what))

    def blocked(cause: Cause) -> float:
        return (last.blocked_ns[cause] - first.blocked_ns[cause]) / SECOND / seconds

    launches, batches, reads = rise(Slot.LAUNCH), rise(Slot.COPY_HTOD), rise(Slot.COPY_DTOH)
    assert last.issue_ns is not None
    assert last.known_idle_ns is not None and first.known_idle_ns is not None
    found = {
        "launches_per_second": launches / seconds,
        "threads_per_launch": (last.launch_threads - first.launch_threads) / launches,
        "launches_per_batch": launches / batches if batches else 0.0,
        "batch_bytes": rise(Slot.COPY_HTOD, "bytes") / batches if batches else 0.0,
        "reads_per_launch": reads / launches,
        "read_bytes": rise(Slot.COPY_DTOH, "bytes") / reads,
        "issue_s": last.issue_ns / SECOND,
        "blocked_sync_ratio": blocked(Cause.SYNCHRONIZE),
        "blocked_copy_ratio": blocked(Cause.COPY),
        "idle_ratio": (last.known_idle_ns - first.known_idle_ns) / SECOND / seconds,
    }
    for figure, value in found.items():
        least = 6e-4 if figure.endswith("_ratio") else 0.0
        assert value == pytest.approx(getattr(of, figure), rel=0.03, abs=least), figure
