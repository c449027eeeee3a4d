"""Findings that share a cause become one; contradicting ones are ranked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpugauge.diagnosis.rules import RULES
from gpugauge.model.finding import Confidence, Finding, Severity
from gpugauge.model.workload import Scope

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
EVIDENCE = 12
"""Numbers shown of one finding."""


def weight(finding: Finding) -> float:
    """Return the time it explains, less where its signals were incomplete."""
    return finding.explained_ratio * WEIGHT[finding.confidence]


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of one workload on one device, the most important first."""
    ordered = sorted(findings, key=lambda f: (-RANK[f.severity], ORDER.get(f.rule, 99)))
    kept: list[Finding] = []
    for finding in ordered:
        by = next((i for i, o in enumerate(kept) if finding.rule in ABSORBS.get(o.rule, ())), None)
        if by is not None:
            kept[by] = _with(kept[by], finding)
            continue
        whole = finding
        for other in [o for o in kept if o.severity is finding.severity]:
            if other.rule in ABSORBS.get(finding.rule, ()):
                kept.remove(other)
                whole = _with(whole, other)
        kept.append(whole)
    rivals = sorted((f for f in kept if f.rule in RIVALS), key=weight, reverse=True)
    for rival in rivals[1:]:
        if RANK[rival.severity] < RANK[rivals[0].severity] or weight(rival) < MUCH_LESS * weight(
            rivals[0]
        ):
            kept.remove(rival)
            place = next(i for i, f in enumerate(kept) if f.rule == rivals[0].rule)
            kept[place] = _with(kept[place], rival)
    return kept


def fold(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with those of one owner and rule made one, and a job's hang made one."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, *_group(finding)), []).append(finding)
    folded = []
    for group in groups.values():
        first = max(group, key=lambda f: (RANK[f.severity], weight(f)))
        pods = len({f.owner for f in group}) - 1
        devices = len({f.gpu_uuid for f in group}) - 1
        more = f"{pods} more pod" if pods else f"on {devices} more device"
        if devices or pods:
            plural = "s" if (pods or devices) > 1 else ""
            first = replace(
                first,
                sentence=f"{first.sentence.removesuffix('.')} (and {more}{plural}).",
                since_unix_ns=min(f.since_unix_ns for f in group),
                pids=tuple(dict.fromkeys(pid for f in group for pid in f.pids))[:16],
            )
        folded.append(first)
    folded.sort(key=lambda f: (-RANK[f.severity], -weight(f), ORDER.get(f.rule, 99)))
    return folded


def _group(finding: Finding) -> tuple[object, ...]:
    owner = finding.owner
    if owner is None or owner.scope not in (Scope.POD, Scope.CONTAINER):
        return (owner, finding.pids)
    if finding.rule == "hang" and owner.workload:
        return (owner.namespace, owner.workload, owner.container)
    return (owner,)


def _with(finding: Finding, part: Finding) -> Finding:
    also = dict.fromkeys((*finding.also, part.rule, *part.also))
    made = replace(finding, also=tuple(also))
    if part.severity is not finding.severity:
        return made
    names = {evidence.name for evidence in finding.evidence}
    more = tuple(evidence for evidence in part.evidence if evidence.name not in names)
    return replace(
        made,
        since_unix_ns=min(finding.since_unix_ns, part.since_unix_ns),
        evidence=(*finding.evidence, *more)[:EVIDENCE],
        remedy=f"{finding.remedy} {part.remedy}".strip() if len(finding.also) == 0 else made.remedy,
    )
