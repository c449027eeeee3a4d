"""Runs scenarios through the diagnosis and compares what it says with the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpugauge.diagnosis import Engine
from gpugauge.model.finding import Finding
from gpugauge.settings import PriceSettings, Settings
from tests.incidents.scenario import WITHIN_S, Scenario
from tests.incidents.seen import BEGAN_UNIX_NS, MODEL, SECOND

SETTINGS = Settings(price=PriceSettings(per_gpu_hour={MODEL: 3.5}))


@dataclass
class Outcome:
    """One scenario, and what was said."""

    name: str
    rule: str
    seed: int
    unseen: bool
    found: bool = False
    """The right rule named the right pod, with the words that belong to it."""
    delay_s: float | None = None
    """From the onset."""
    wrong: list[str] = field(default_factory=list)
    """Findings that are not true: `rule at TIME: sentence`."""
    said: str = ""
    hours: float = 0.0

    @property
    def right(self) -> bool:
        """Named in time, and nothing else said."""
        in_time = self.delay_s is not None and self.delay_s <= WITHIN_S
        return self.found and in_time and not self.wrong


def play(
    scenario: Scenario, seed: int, settings: Settings = SETTINGS, *, every_seconds: float = 0.0
) -> Outcome:
    """Run a scenario and judge what the diagnosis says, shown a snapshot this often."""
    truth = scenario.truth
    outcome = Outcome(scenario.name, truth.rule, seed, scenario.unseen)
    engine, node = Engine(settings), scenario.node
    reported: set[tuple[str, str]] = set()
    due_s = 0.0
    while node.elapsed_s < scenario.length_s:
        for entry in [e for e in scenario.script if e[0] <= node.elapsed_s + node.dt / 2]:
            scenario.script.remove(entry)
            entry[1]()
        snapshot = node.tick()
        if node.elapsed_s < due_s:
            continue
        due_s = node.elapsed_s + every_seconds - node.dt / 2
        for finding in engine.observe(snapshot):
            _judge(finding, scenario, outcome, reported)
    outcome.hours = node.elapsed_s / 3600
    return outcome


def _judge(
    finding: Finding, scenario: Scenario, outcome: Outcome, reported: set[tuple[str, str]]
) -> None:
    truth, node = scenario.truth, scenario.node
    owner = node.pods[truth.pod].owner if truth.pod in node.pods else None
    same_job = truth.rule == "hang" and owner and finding.owner
    if finding.rule == truth.rule and (
        finding.owner == owner or (same_job and owner.workload == finding.owner.workload)
    ):
        if outcome.found:
            return
        parties = " ".join(f"{p.owner.pod} {p.command}" for p in finding.parties)
        text = f"{finding.sentence} {parties}"
        if all(word in text for word in truth.words):
            outcome.found = True
            found_s = (finding.found_unix_ns - BEGAN_UNIX_NS) / SECOND
            outcome.delay_s = max(0.0, found_s - truth.onset_s)
            if found_s < truth.onset_s - node.dt:
                outcome.wrong.append(f"{finding.rule} before its time: {finding.sentence}")
        outcome.said = finding.sentence
        return
    if finding.rule in truth.also:
        return
    key = (finding.rule, str(finding.owner))
    if key not in reported:
        reported.add(key)
        at = node.elapsed_s
        outcome.wrong.append(f"{finding.severity} {finding.rule} at {at:.0f} s: {finding.sentence}")
