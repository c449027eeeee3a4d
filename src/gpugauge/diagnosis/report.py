"""From an answer of a rule to a finding."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.hysteresis import RuleState
from gpugauge.diagnosis.rule import Rule, Suspicion
from gpugauge.diagnosis.subject import Subject
from gpugauge.diagnosis.text import owner_text
from gpugauge.model.finding import Confidence, Finding, Severity

LOWER = {Severity.CRITICAL: Severity.WARNING, Severity.WARNING: Severity.INFO}
"""What is only possible weighs one step less."""


def make_finding(
    rule: Rule, verdict: Suspicion, case: Case, subject: Subject, state: RuleState
) -> Finding:
    """Return the finding; signals that were lacking make it less sure, and then less grave."""
    lacked = (*verdict.lacked, *case.incomplete)
    confidence = (Confidence.SURE, Confidence.LIKELY, Confidence.POSSIBLE)[min(len(lacked), 2)]
    severity = verdict.severity
    if confidence is Confidence.POSSIBLE:
        severity = LOWER.get(severity, severity)
    snapshot = case.snapshot
    return Finding(
        rule=rule.id,
        severity=severity,
        confidence=confidence,
        owner=subject.owner,
        gpu_uuid=subject.gpu_uuid,
        node=snapshot.node,
        sentence=f"{owner_text(subject.owner, subject.command, subject.pid)} {verdict.sentence}",
        remedy=verdict.remedy,
        wrong_when=rule.wrong_when,
        since_unix_ns=state.since_unix_ns,
        found_unix_ns=state.found_unix_ns,
        seen_unix_ns=snapshot.time_unix_ns,
        explained_ratio=max(0.0, min(1.0, verdict.explained_ratio)),
        evidence=verdict.evidence,
        parties=verdict.parties,
        pids=verdict.pids or tuple(process.pid for process, _ in subject.processes[:16]),
        lacked=lacked,
        simulated=snapshot.simulated,
    )
