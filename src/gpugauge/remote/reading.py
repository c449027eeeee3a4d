"""What an agent says of its node: the owners' totals, and what the diagnosis found."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.codec.snapshot import load_snapshot
from gpugauge.errors import ForeignDataError
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.remote.link import Link
from gpugauge.remote.page import SECONDS, PageError

SNAPSHOT = "/api/v1/snapshot?detail=owner"
"""Without processes and histograms; an agent that does not know the word answers with them."""
FINDINGS = "/api/v1/findings"
LIMIT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at an agent."""

    snapshot: Snapshot
    findings: tuple[Finding, ...] | None
    """None: this agent does not tell."""
    lacked: tuple[str, ...] = ()
    """What the diagnosis could not see."""


def read(link: Link, seconds: float = SECONDS) -> Reading:
    """Look at an agent.

    Raises:
        UnavailableError: it cannot be reached, or has no snapshot yet.
        ForeignDataError: its answer has another form.
    """
    body = link.ask(SNAPSHOT, seconds=seconds, limit_bytes=LIMIT_BYTES)
    try:
        snapshot = load_snapshot(body)
        found = _findings(link, seconds)
        if found is None:
            return Reading(snapshot, None)
        return Reading(snapshot, load_findings(found), load_lacked(found))
    except ForeignDataError as error:
        raise ForeignDataError(
            f"its answer has another form ({error.sentence.rstrip('.')})",
            "Use the gpugauge of the agent's version.",
        ) from None


def _findings(link: Link, seconds: float) -> bytes | None:
    try:
        return link.ask(FINDINGS, seconds=seconds, limit_bytes=LIMIT_BYTES)
    except PageError as error:
        if error.status == 404:
            return None
        raise
