"""Issuing a launch costs more than it did, while the GPU's side did not change."""

from __future__ import annotations

from gpugauge.diagnosis.case import SAME_WORK, Case, compare, grown, lost_ratio, more
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent, times
from gpugauge.model.finding import Severity

LONGER_WAIT = 1.25
WAITED_RATIO = 0.5
"""With more of the lost time waited for the GPU it is not the host."""


def check(case: Case) -> Verdict:
    """The issue cost has risen, the wait per synchronization has not, and work is lost."""
    if case.why_not:
        return LookAgain(case.why_not)
    now, phase = case.now, case.phase(SAME_WORK)
    assert now is not None  # noqa: S101 - why_not is empty
    if now.issue_seconds is None:
        return LookAgain("the cost of issuing a launch")
    if phase is None or not now.work_per_second:
        return LookAgain("a known phase that does the same work")
    usual, limits = phase.usual, case.settings
    cost = grown(now.issue_seconds, usual.issue_seconds)
    if cost < case.slack_factor(limits.host_slow_issue_ratio):
        return FINE
    # Process-seconds by unit of work that are lost, and those of them that are waited.
    slower = now.processes / now.work_per_second - usual.processes / usual.work_per_second
    waited = more(now.wait_per_work_seconds, usual.wait_per_work_seconds)
    longer = grown(now.wait_per_sync_seconds, usual.wait_per_sync_seconds)
    if longer > LONGER_WAIT and waited > WAITED_RATIO * slower:
        return FINE  # the GPU's side takes longer
    if (
        more(now.throttled_ratio, usual.throttled_ratio) >= limits.cpu_starvation_throttled_ratio
        or more(now.pressure_cpu_ratio, usual.pressure_cpu_ratio)
        >= limits.cpu_starvation_pressure_ratio
    ):
        return FINE  # its quota, or others on its CPUs: see cpu_starvation
    lost = lost_ratio(now, phase)
    if lost < case.slack(limits.host_slow_lost_ratio):
        return FINE
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"runs on a slower host than it used to: issuing a launch takes {times(cost)} "
        f"as long while the GPU is as fast as before, and {percent(lost)} of its work is lost.",
        remedy=RULE.remedy,
        evidence=(
            *compare("cost of issuing a launch", "s", now.issue_seconds, usual.issue_seconds),
            *compare("launches", "1/s", now.work_per_second, usual.work_per_second),
            *compare("wait per synchronization", "s", now.wait_per_sync_seconds,
                     usual.wait_per_sync_seconds),
            *compare("CPU time per launch", "s", now.cpu_per_work_seconds,
                     usual.cpu_per_work_seconds),
        ),
        explained_ratio=lost,
    )  # fmt: skip


RULE = Rule(
    id="host_slow",
    title="Slow host",
    needs=("issue cost", "launches", "wait per synchronization", "a learned baseline"),
    settings=("host_slow_issue_ratio", "host_slow_lost_ratio"),
    meaning="Issuing one launch, which is pure CPU work in the driver, takes longer than it did "
    "for this workload, and the GPU's side is unchanged. The CPU runs slower: its frequency, "
    "a neighbour on the same core, or a tool that makes calls slower.",
    remedy="Compare the node's CPU frequency and governor with others; look for what else runs "
    "on its cores, for scanners and tracers. gpugauge's own cost a launch is "
    "`gpugauge_agent_probe_cost_seconds`.",
    wrong_when="The cost is learned from launches made soon after the GPU was drained; a program "
    "that changed what it launches (more arguments, larger graphs) pays more as well.",
    absorbs=("launch_bound", "cpu_starvation"),
    check=check,
)
