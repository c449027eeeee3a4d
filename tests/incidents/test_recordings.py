"""Incidents of PyTorch programs recorded on a real GPU are named, and nothing else is blamed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpugauge.codec.recording import RecordingReader
from gpugauge.diagnosis import Engine
from gpugauge.model.finding import Finding, Severity
from gpugauge.settings import DiagnosisSettings, Settings
from tests.incidents.scenario import WITHIN_S

FOLDER = Path(__file__).parent / "recordings"
SECOND = 1_000_000_000
IDLE_SECONDS = 130
"""The one setting that is not the shipped one: the recording is shorter than half an hour."""
Key = tuple[str, int]
"""A rule and the number of a container."""


@dataclass(frozen=True)
class Recorded:
    """What a recording holds."""

    file: str
    onsets: dict[Key, float]
    """When a cause can be seen first, in seconds: with what the rule waits by itself."""
    also: frozenset[Key] = frozenset()
    """True as well, and need not be said."""


RECORDED = (
    Recorded(
        "states.jsonl.gz",
        # Programs are 7 s in when they start; the hang begins 8 s later.
        {("launch_bound", 2): 67, ("transfer_bound", 4): 67, ("hang", 3): 135,
         ("idle_holder", 1): 137},
    ),
    Recorded(
        "added.jsonl.gz",
        {("added_synchronization", 5): 160.3, ("added_synchronization", 2): 160.3,
         ("cpu_starvation", 4): 160.3},
    ),
    Recorded(
        "again.jsonl.gz",
        {("launch_bound", 1): 67, ("added_synchronization", 2): 210.7},
    ),
    Recorded(
        "neighbour.jsonl.gz",
        {("noisy_neighbour", 4): 143.2},
        # The incidents before it, and the other programs on the device.
        frozenset({("noisy_neighbour", 5), ("noisy_neighbour", 7), ("noisy_neighbour", 8),
                   ("added_synchronization", 5), ("added_synchronization", 8),
                   ("cpu_starvation", 7), ("idle_holder", 3)}),
    ),
)  # fmt: skip


def named(file: str) -> tuple[dict[Key, float], dict[Key, Finding]]:
    """Return when each cause was named first, in seconds, and the finding as it was last."""
    settings = Settings(diagnosis=DiagnosisSettings(idle_holder_seconds=IDLE_SECONDS))
    engine = Engine(settings)
    reader = RecordingReader(FOLDER / file)
    began: int | None = None
    first: dict[Key, float] = {}
    last: dict[Key, Finding] = {}
    for snapshot in reader:
        began = began or snapshot.time_unix_ns
        for finding in engine.observe(snapshot):
            assert finding.owner is not None
            key = (finding.rule, int(finding.owner.container_id, 16))
            first.setdefault(key, (finding.found_unix_ns - began) / SECOND)
            last[key] = finding
    assert reader.bad_lines == 0
    return first, last


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: r.file.partition(".")[0])
def test_a_recorded_incident_is_named_in_time_and_nothing_else(recorded: Recorded) -> None:
    first, last = named(recorded.file)
    late = {
        key: first.get(key)
        for key, onset in recorded.onsets.items()
        if key not in first or not -1 <= first[key] - onset <= WITHIN_S
    }
    assert late == {}
    blamed = {key for key, finding in last.items() if finding.severity is not Severity.INFO}
    assert blamed - recorded.onsets.keys() - recorded.also == set()


def test_the_sentences_hold_what_was_done() -> None:
    _, added = named("added.jsonl.gz")
    logged = added["added_synchronization", 5].sentence
    assert "copies to the host of 409" in logged  # four of 512 KiB and one of 4 bytes
    assert "copies to the host of 4 B" in added["added_synchronization", 2].sentence
    assert "quota of 0.4 cores, which it did not have" in added["cpu_starvation", 4].sentence
    _, states = named("states.jsonl.gz")
    assert "cuStreamSynchronize is open" in states["hang", 3].sentence
    assert "holds 4.6 GiB" in states["idle_holder", 1].sentence
    _, neighbour = named("neighbour.jsonl.gz")
    parties = neighbour["noisy_neighbour", 4].parties
    assert int(parties[0].owner.container_id, 16) == 3


def test_a_healthy_program_beside_them_is_not_blamed() -> None:
    _, last = named("added.jsonl.gz")
    assert [key for key in last if key[1] == 3] == []


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: r.file.partition(".")[0])
def test_recordings_hold_no_names(recorded: Recorded) -> None:
    path = FOLDER / recorded.file
    assert path.stat().st_size < 300_000
    for snapshot in RecordingReader(path):
        assert snapshot.node == "node-1"
        for process in snapshot.processes:
            assert process.comm in ("python3", "program")
            assert process.owner.container_id.startswith("0" * 60)
        for device in snapshot.devices:
            assert device.uuid.startswith("GPU-00000000-0000-0000-0000-")
