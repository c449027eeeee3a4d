"""Where `gpugauge diagnose` gets findings from."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.codec.recording import RecordingReader
from gpugauge.codec.snapshot import load_snapshot
from gpugauge.diagnosis.engine import Engine
from gpugauge.diagnosis.prometheus import cluster_snapshots
from gpugauge.errors import ForeignDataError, UnavailableError
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

SECOND = 1_000_000_000
TIMEOUT_SECONDS = 10.0
LIMIT_BYTES = 64 * 1024 * 1024
WARM_SECONDS = 900.0
"""Asked of Prometheus before the time of interest, so that what is usual is known by then."""
LEAST_SNAPSHOTS = 3


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
        rank = {"critical": 0, "warning": 1, "info": 2}
        kept = [f for f in self.found.values() if f.seen_unix_ns >= oldest]
        return tuple(sorted(kept, key=lambda f: (rank[f.severity], -f.explained_ratio)))

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


def from_agent(
    url: str, settings: Settings, since_seconds: float, watch_seconds: float = 60.0
) -> Seen:
    """Ask an agent what it has found; watch its snapshots if it does not diagnose itself.

    Raises:
        UnavailableError: it does not answer.
        ForeignDataError: the answer is not an agent's.
    """
    base = (url or f"http://127.0.0.1:{settings.listen.port}").rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise UnavailableError(f"{base[:120]} is not an http(s) URL.", "Give http://HOST:9836.")
    status, body = _get(f"{base}/api/v1/findings", settings)
    if status == HTTPStatus.OK:
        found = load_findings(body)
        oldest = time.time_ns() - int(since_seconds * SECOND)
        kept = tuple(f for f in found if f.seen_unix_ns >= oldest)
        return Seen(kept, base, load_lacked(body), True, any(f.simulated for f in kept))
    if status != HTTPStatus.NOT_FOUND:
        text = body[:200].decode(errors="replace").strip()
        raise UnavailableError(f"The agent at {base} answered {status}: {text}.", "See its log.")
    log, until = _Log(settings), time.monotonic() + watch_seconds
    while time.monotonic() < until:
        status, body = _get(f"{base}/api/v1/snapshot", settings)
        if status == HTTPStatus.OK:
            log.feed([load_snapshot(body)])
        time.sleep(settings.tick_seconds)
    if not log.snapshots:
        raise UnavailableError(f"The agent at {base} has no snapshot yet.", "Try again later.")
    return Seen(log.since(since_seconds), base, log.lacked(), True, log.simulated)


def _get(url: str, settings: Settings) -> tuple[int, bytes]:
    request = urllib.request.Request(url)  # noqa: S310 - http(s) only, checked before
    token_file = settings.listen.bearer_token_file
    try:
        if token_file:
            token = Path(token_file).read_text().strip()
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read(LIMIT_BYTES + 1)
            status: int = answer.status
    except urllib.error.HTTPError as error:
        return error.code, error.read(4096)
    except (OSError, ValueError) as error:
        base, why = url.partition("/api/")[0], getattr(error, "reason", error)
        raise UnavailableError(
            f"No agent answers at {base}: {why}.",
            "Start one with `gpugauge run`, or give --file or --prometheus.",
        ) from error
    if len(body) > LIMIT_BYTES:
        raise ForeignDataError("The answer is too large.", "Is this the agent's port?")
    return status, body
