"""Findings as a person reads them."""

from __future__ import annotations

import textwrap
from datetime import datetime

from gpugauge.cli.diagnose.source import Seen
from gpugauge.cli.terminal import cleaned
from gpugauge.diagnosis.text import clean, evidence_text, owner_text, percent
from gpugauge.model.finding import Confidence, Finding

WIDTH = 100
SECOND = 1_000_000_000
SHOWN_NOTES = 6


def report(findings: tuple[Finding, ...], seen: Seen, pod: str | None) -> str:
    """Return the whole answer."""
    about = f" about {clean(pod)}" if pod else ""
    lines = []
    if seen.simulated:
        lines.append("SIMULATED: these are figures of the simulated driver, not of a GPU.\n")
    if not findings:
        lines.append(f"Nothing found{about} ({clean(seen.where)}).")
    for finding in findings:
        lines.append(finding_text(finding))
    if seen.notes:
        lines.append("What could not be seen:")
        lines += [_wrap(clean_note(note), "  - ") for note in seen.notes[:SHOWN_NOTES]]
        more = len(seen.notes) - SHOWN_NOTES
        if more > 0:
            lines.append(f"  - and {more} more")
    # An agent elsewhere may send anything.
    return cleaned("\n".join(lines))


def finding_text(finding: Finding) -> str:
    """Return one finding: the sentence, the proof, who, where, and the next step."""
    since = datetime.fromtimestamp(finding.since_unix_ns / SECOND).astimezone()
    sure = "" if finding.confidence is Confidence.SURE else f", {finding.confidence}"
    head = f"{finding.severity.upper()} {finding.rule}{sure}, since {since:%Y-%m-%d %H:%M:%S}"
    lines = [head, _wrap(finding.sentence, "  ")]
    lines += [f"    {evidence_text(evidence)}" for evidence in finding.evidence]
    for party in finding.parties:
        name = owner_text(party.owner, party.command, party.pid)
        shares = []
        if party.demand_ratio is not None:
            shares.append(f"{percent(party.demand_ratio)} of the launches")
        if party.busy_ratio is not None:
            shares.append(f"busy at most {percent(party.busy_ratio)} of the time")
        pid = f" (pid {party.pid})" if party.pid and f"({party.pid})" not in name else ""
        lines.append(f"    {party.role}: {name}{pid}{': ' if shares else ''}{', '.join(shares)}")
    for line in finding.lines:
        place = f"{line.file}:{line.line} {line.function}"
        lines.append(f"    {percent(line.share_ratio)} of its sampled stacks at {place}")
    lines.append(_wrap(f"next: {finding.remedy}", "  "))
    if finding.also:
        lines.append(_wrap(f"seen as well: {', '.join(finding.also)}", "  "))
    if finding.lacked:
        lines.append(_wrap(f"lacked: {', '.join(finding.lacked)}", "  "))
    where = [f"gpu {finding.gpu_uuid}", f"node {clean(finding.node)}"]
    if finding.pids:
        where.append(f"pid {', '.join(map(str, finding.pids[:4]))}")
    lines.append(f"  {' | '.join(where)}")
    return "\n".join(lines) + "\n"


def clean_note(note: str) -> str:
    """Return a note without control characters."""
    return "".join(ch if ch.isprintable() else "?" for ch in note[:300])


def _wrap(text: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))
