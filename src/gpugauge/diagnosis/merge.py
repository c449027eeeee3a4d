"""Findings that share a cause become one; contradicting ones are ranked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpugauge.diagnosis.rules import RULES
from gpugauge.model.finding import Confidence, Finding, Severity

RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
WEIGHT = {Confidence.SURE: 1.0, Confidence.LIKELY: 0.7, Confidence.POSSIBLE: 0.4}
ORDER = {rule.id: number for number, rule in enumerate(RULES)}
ABSORBS = {rule.id: frozenset(rule.absorbs) for rule in RULES}
RIVALS = frozenset(
    {
        "added_synchronization",
        "noisy_neighbour",
        "cpu_starvation",
        "host_slow",
        "allocator_churn",
        "transfer_bound",
    }
)
"""Each would explain the same lost work by another cause."""
MUCH_LESS = 0.5


def weight(finding: Finding) -> float:
    """Return the time it explains, less where its signals were incomplete."""
    return finding.explained_ratio * WEIGHT[finding.confidence]


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of one workload on one device, the most important first."""
    ordered = sorted(findings, key=lambda f: (-RANK[f.severity], ORDER.get(f.rule, 99)))
    kept: list[Finding] = []
    for finding in ordered:
        for index, other in enumerate(kept):
            if finding.rule in ABSORBS.get(other.rule, ()):
                kept[index] = _with(other, finding)
                break
        else:
            kept.append(finding)
    rivals = sorted((f for f in kept if f.rule in RIVALS), key=weight, reverse=True)
    for rival in rivals[1:]:
        if RANK[rival.severity] < RANK[rivals[0].severity] or weight(rival) < MUCH_LESS * weight(
            rivals[0]
        ):
            kept.remove(rival)
            place = next(i for i, f in enumerate(kept) if f.rule == rivals[0].rule)
            kept[place] = _with(kept[place], rival)
    return kept


def fold_devices(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with those of one owner and rule on several devices made one."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        per_process = finding.owner is None or not (finding.owner.pod or finding.owner.container_id)
        key = (finding.rule, finding.owner, finding.pids if per_process else ())
        groups.setdefault(key, []).append(finding)
    folded = []
    for group in groups.values():
        first = max(group, key=lambda f: (RANK[f.severity], weight(f)))
        if len(group) > 1:
            others = len(group) - 1
            more = f" (and on {others} more device{'s' if others > 1 else ''})"
            first = replace(
                first,
                sentence=first.sentence.removesuffix(".") + more + ".",
                since_unix_ns=min(f.since_unix_ns for f in group),
                pids=tuple(dict.fromkeys(pid for f in group for pid in f.pids))[:16],
            )
        folded.append(first)
    folded.sort(key=lambda f: (-RANK[f.severity], -weight(f), ORDER.get(f.rule, 99)))
    return folded


def _with(finding: Finding, part: Finding) -> Finding:
    also = dict.fromkeys((*finding.also, part.rule, *part.also))
    return replace(
        finding,
        also=tuple(also),
        since_unix_ns=min(finding.since_unix_ns, part.since_unix_ns)
        if part.severity is finding.severity
        else finding.since_unix_ns,
    )
