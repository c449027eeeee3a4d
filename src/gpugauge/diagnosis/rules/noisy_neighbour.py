"""A workload that waits longer because somebody else came to the same device."""

from __future__ import annotations

from gpugauge.diagnosis.case import SIMILAR_WORK, Case, compare, grown, lost_ratio
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import owner_text, percent, times
from gpugauge.model.finding import Severity

RISE = 2.0
"""As many times the threshold, where the sum of all neighbours does not tell."""
CAME_RATIO = 0.1
"""Busier than before by so much: one of those that came."""


def check(case: Case) -> Verdict:
    """Others' work appeared on the device, and the same work takes longer there."""
    if case.why_not:
        return LookAgain(case.why_not)
    now = case.now
    assert now is not None  # noqa: S101 - why_not is empty
    appeared_unseen = False
    if not case.neighbours and not now.others_unseen:
        return FINE
    if now.work_per_second == 0:
        return FINE
    phase = case.phase(SIMILAR_WORK)
    if phase is None:
        return LookAgain("a known phase that does similar work")
    usual, limits = phase.usual, case.settings
    busier = now.others_busy_ratio - phase.others_high
    least = case.slack(limits.noisy_neighbour_busy_ratio)
    # Where many share a device their sum says little: then it counts that one became busier.
    if busier < least and max(map(case.rise, case.neighbours), default=0.0) < RISE * least:
        appeared_unseen = now.others_unseen > usual.others_unseen
        if not appeared_unseen:
            return FINE
    per_sync = grown(now.wait_per_sync_seconds, usual.wait_per_sync_seconds)
    per_work = grown(now.wait_per_work_seconds, usual.wait_per_work_seconds)
    longer = max(per_sync, per_work)
    if longer < case.slack_factor(limits.noisy_neighbour_wait_ratio):
        return FINE
    lost = lost_ratio(now, phase)
    # A service that answers what arrives loses no launches: its harm is the longer wait.
    slower = now.blocked_ratio > usual.blocked_ratio * 1.2 and per_work >= 1.5
    if lost < case.slack(limits.harm_lost_ratio) and not slower:
        return FINE
    parties = case.neighbour_parties()
    who = _who(case, appeared_unseen)
    share = now.work_per_second / (
        now.work_per_second + sum(n.now.work_per_second for n in case.neighbours)
    )
    harm = (
        f"it launches {percent(lost)} less"
        if lost >= limits.harm_lost_ratio
        else f"the same work waits {times(per_work)} as long"
    )
    wait = (now.wait_per_work_seconds or 0) - (usual.wait_per_work_seconds or 0)
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"shares its GPU with {who}, and waits {times(longer)} as long as it used to; "
        f"{harm}.",
        remedy=RULE.remedy,
        evidence=(
            *compare("launches", "1/s", now.work_per_second, usual.work_per_second),
            *compare("wait per synchronization", "s", now.wait_per_sync_seconds,
                     usual.wait_per_sync_seconds),
            *compare("wait per launch", "s", now.wait_per_work_seconds,
                     usual.wait_per_work_seconds),
            *compare("blocked", "ratio", now.blocked_ratio, usual.blocked_ratio),
            *compare("others busy on the device", "ratio", now.others_busy_ratio,
                     usual.others_busy_ratio),
            *compare("own share of launches", "ratio", share, None),
        ),
        parties=parties,
        explained_ratio=max(0.0, wait * now.work_per_second),
        lacked=("the calls of the other process",) if appeared_unseen else (),
    )  # fmt: skip


def _who(case: Case, unseen: bool) -> str:
    active = [n for n in case.neighbours if n.now.busy_ratio > 0]
    if not active or unseen:
        return "a process whose calls are not seen"
    first = max(active, key=case.rise)
    name = owner_text(first.owner, first.command, first.pid)
    came = sum(case.rise(n) >= CAME_RATIO for n in active)
    return name if came <= 1 else f"{name} and {came - 1} more"


RULE = Rule(
    id="noisy_neighbour",
    title="Noisy neighbour",
    needs=("launches", "blocked time", "contention", "a learned baseline"),
    settings=(
        "noisy_neighbour_wait_ratio",
        "noisy_neighbour_busy_ratio",
        "harm_lost_ratio",
    ),
    meaning="Another process began to work on the same device, and since then the same work of "
    "this one takes longer: each synchronization, or each launch, waits longer. Its *share* of "
    "time blocked may not move at all, when it always waits. Both sides are named, with their "
    "part of the launches and of the busy time. Where many share the device their sum may not "
    "tell: one that became busier by twice the threshold counts as well.",
    remedy="Move one of the two to another GPU, or give each a MIG instance; with time-slicing, "
    "lower the replicas. Where both must stay, MPS lets small work of both run at a time.",
    wrong_when="The other side may be a symptom: a job that came because this one was already "
    "slow. Busy time of the other is an upper bound, since only known idle is subtracted.",
    absorbs=("gpu_saturated", "transfer_bound"),
    check=check,
)
