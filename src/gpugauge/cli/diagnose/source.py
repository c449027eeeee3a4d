"""Where `gpugauge diagnose` gets findings from."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.codec.recording import RecordingReader
from gpugauge.codec.snapshot import load_snapshot
from gpugauge.diagnosis.engine import Engine
from gpugauge.diagnosis.prometheus import cluster_snapshots
from gpugauge.errors import UnavailableError
from gpugauge.model.finding import Finding, Severity
from gpugauge.model.snapshot import Snapshot
from gpugauge.remote.fleet import Fleet
from gpugauge.remote.link import Link
from gpugauge.remote.page import PageError
from gpugauge.settings import Settings

SECOND = 1_000_000_000
FINDINGS = "/api/v1/findings"
SNAPSHOT = "/api/v1/snapshot"
RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
WARM_SECONDS = 900.0
"""Asked of Prometheus before the time of interest, so that what is usual is known by then."""
LEAST_SNAPSHOTS = 3
WATCH_SECONDS = 60.0
"""An agent that does not diagnose itself is watched for this long."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found, and how far one could see."""

    findings: tuple[Finding, ...]
    where: str
    notes: tuple[str, ...] = ()
    is_live: bool = False
    simulated: bool = False


class _Log:
    """Findings over time: the last state of each, also of those that were closed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.engines: dict[str, Engine] = {}
        self.found: dict[tuple[object, ...], Finding] = {}
        self.last_ns = 0
        self.snapshots = 0
        self.simulated = False

    def feed(self, snapshots: Iterable[Snapshot]) -> None:
        """Give snapshots to the engine of their node."""
        for snapshot in snapshots:
            engine = self.engines.get(snapshot.node)
            if engine is None:
                engine = self.engines[snapshot.node] = Engine(self.settings)
            self.snapshots += 1
            self.last_ns = max(self.last_ns, snapshot.time_unix_ns)
            self.simulated |= snapshot.simulated
            for finding in engine.observe(snapshot):
                key = (finding.node, finding.rule, finding.owner, finding.gpu_uuid)
                self.found[key] = finding

    def since(self, seconds: float) -> tuple[Finding, ...]:
        """Return findings that held within the last seconds, as the engines rank them."""
        oldest = self.last_ns - int(seconds * SECOND)
        return by_weight(f for f in self.found.values() if f.seen_unix_ns >= oldest)

    def lacked(self) -> tuple[str, ...]:
        """Return what rules could not see at their last look."""
        return tuple(note for engine in self.engines.values() for note in engine.notes())


def from_recording(path: Path, settings: Settings, since_seconds: float) -> Seen:
    """Diagnose a recording.

    Raises:
        UnavailableError: it cannot be read, or holds too little.
        ForeignDataError: it is not a recording.
    """
    reader, log = RecordingReader(path), _Log(settings)
    log.feed(reader)
    if log.snapshots < LEAST_SNAPSHOTS:
        raise UnavailableError(
            f"{path} holds {log.snapshots} whole snapshots, which is too few to compare.",
            "Record for some minutes.",
        )
    notes = log.lacked()
    if reader.bad_lines:
        notes = (f"{reader.bad_lines} lines of the recording could not be read.", *notes)
    where = f"{path}, {log.snapshots} snapshots of {', '.join(log.engines)}"
    return Seen(log.since(since_seconds), where, notes, simulated=log.simulated)


def from_prometheus(url: str, settings: Settings, since_seconds: float, now_seconds: float) -> Seen:
    """Diagnose all nodes that a Prometheus knows.

    Raises:
        UnavailableError: it does not answer, or knows no node.
        ForeignDataError: the answer is not Prometheus'.
    """
    log = _Log(settings)
    for snapshots in cluster_snapshots(url, now_seconds, since_seconds + WARM_SECONDS).values():
        log.feed(snapshots)
    if not log.snapshots:
        raise UnavailableError(
            "Prometheus has no series of gpugauge in this time.",
            "Check that it scrapes the agents (docs/metrics.md).",
        )
    notes = ("Single processes are not exported: some rules see less here.", *log.lacked())
    where = f"{url}, {len(log.engines)} nodes"
    return Seen(log.since(since_seconds), where, notes, simulated=log.simulated)


def from_agent(link: Link, settings: Settings, since_seconds: float) -> Seen:
    """Ask an agent what it has found; watch its snapshots if it does not diagnose itself.

    Raises:
        UnavailableError: it does not answer.
        ForeignDataError: the answer is not an agent's.
    """
    where = link.node or link.where
    try:
        body = link.ask(FINDINGS)
    except PageError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    else:
        found = load_findings(body)
        oldest = time.time_ns() - int(since_seconds * SECOND)
        kept = tuple(f for f in found if f.seen_unix_ns >= oldest)
        return Seen(kept, where, load_lacked(body), True, any(f.simulated for f in kept))
    log, until = _Log(settings), time.monotonic() + WATCH_SECONDS
    while time.monotonic() < until:
        with suppress(PageError):  # it has no snapshot yet
            log.feed([load_snapshot(link.ask(SNAPSHOT))])
        time.sleep(settings.tick_seconds)
    if not log.snapshots:
        raise UnavailableError(f"The agent at {where} has no snapshot yet.", "Try again later.")
    return Seen(log.since(since_seconds), where, log.lacked(), True, log.simulated)


def from_agents(links: Iterable[Link], settings: Settings, since_seconds: float) -> Seen:
    """Ask agents of several nodes; one that does not answer is a note.

    Raises:
        UnavailableError: none of them answers.
    """
    with Fleet(links) as fleet:
        answers = fleet.each(lambda link: from_agent(link, settings, since_seconds))
    seen = [answer.value for answer in answers if answer.value is not None]
    silent = [(a.link.node or a.link.where, a.error) for a in answers if a.error is not None]
    if not seen:
        raise silent[0][1] if silent else UnavailableError("No agent was asked.")
    notes = [f"{node}: {error.sentence.rstrip('.')}. {error.next_step}" for node, error in silent]
    return Seen(
        by_weight(finding for one in seen for finding in one.findings),
        seen[0].where if len(answers) == 1 else f"{len(seen)} of {len(answers)} agents",
        (*notes, *dict.fromkeys(note for one in seen for note in one.notes)),
        simulated=any(one.simulated for one in seen),
    )


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which the engines rank them."""
    return tuple(sorted(findings, key=lambda f: (RANK[f.severity], -f.explained_ratio)))
