"""A GPU that is the limit, as it should be: information."""

from __future__ import annotations

from gpugauge.diagnosis.case import SAME_WORK, Case, compare, lost_ratio
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent
from gpugauge.model.finding import Severity


def check(case: Case) -> Verdict:
    """The host waits nearly all the time, and the GPU never does."""
    now, limits = case.now, case.settings
    if now is None or case.after_gap:
        return LookAgain("a whole window of snapshots without a gap")
    if case.starting:
        return LookAgain("processes that are past their start")
    blocked = now.blocked_ratio
    if now.work_per_second == 0 or blocked < case.slack(limits.gpu_saturated_blocked_ratio):
        return FINE
    if now.idle_ratio is None:
        return LookAgain("known idle time")
    if now.idle_ratio > limits.gpu_saturated_idle_ratio:
        return FINE
    if case.recent_work_per_second < 0.5 * now.work_per_second:
        return LookAgain("work: it pauses")
    phase = case.phase(SAME_WORK)
    if phase is not None and lost_ratio(now, phase) >= limits.harm_lost_ratio:
        return FINE
    return Suspicion(
        severity=Severity.INFO,
        sentence=f"keeps its GPU busy: its host waits {percent(min(1.0, blocked))} of the time, "
        f"and the GPU at least {percent(now.idle_ratio)}.",
        remedy=RULE.remedy,
        evidence=(
            *compare("blocked", "ratio", now.blocked_ratio, None),
            *compare("known idle", "ratio", now.idle_ratio, None),
            *compare("launches", "1/s", now.work_per_second, None),
        ),
        explained_ratio=0.0,
        harm=False,
    )


RULE = Rule(
    id="gpu_saturated",
    title="GPU saturated",
    needs=("blocked time", "known idle", "launches"),
    settings=("gpu_saturated_blocked_ratio", "gpu_saturated_idle_ratio"),
    meaning="The host waits for the GPU nearly all the time and the GPU is never seen waiting. "
    "That is a healthy state: the GPU is the limit, not the program around it.",
    remedy="To be faster, the work on the GPU itself must become less: a profiler that looks "
    "inside GPU functions is the next tool.",
    wrong_when="Busy is not efficient: one thread that loops on the GPU saturates it as well.",
    check=check,
)
