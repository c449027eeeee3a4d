"""Time that goes into allocating and freeing GPU memory over and over."""

from __future__ import annotations

from gpugauge.diagnosis.case import SAME_WORK, Case, compare
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent, rate
from gpugauge.model.finding import Severity


def check(case: Case) -> Verdict:
    """Many allocations a second, and a noticeable share of time inside them."""
    now, limits = case.now, case.settings
    if now is None or case.after_gap:
        return LookAgain("a whole window of snapshots without a gap")
    if case.starting:
        return LookAgain("processes that are past their start")
    spent = max(now.allocation_ratio, now.blocked_allocation_ratio)
    if spent < case.slack(limits.allocator_churn_time_ratio):
        return FINE
    if now.allocations_per_second < case.slack(limits.allocator_churn_calls_per_second):
        return FINE
    phase = case.phase(SAME_WORK)
    usual = phase.usual if phase is not None else None
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"spends {percent(min(1.0, spent))} of its time allocating and freeing GPU "
        f"memory, {rate(now.allocations_per_second)}.",
        remedy=RULE.remedy,
        evidence=(
            *compare("time in allocations and frees", "ratio", spent,
                     usual.allocation_ratio if usual else None),
            *compare("allocations", "1/s", now.allocations_per_second,
                     usual.allocations_per_second if usual else None),
            *compare("launches", "1/s", now.work_per_second,
                     usual.work_per_second if usual else None),
        ),
        explained_ratio=spent,
        lacked=() if case.of.memory is not None else ("memory from the start of the process",),
    )  # fmt: skip


RULE = Rule(
    id="allocator_churn",
    title="Allocator churn",
    needs=("allocations", "time in allocations", "launches"),
    settings=("allocator_churn_time_ratio", "allocator_churn_calls_per_second"),
    meaning="The program allocates and frees GPU memory over and over in its steady state. Such "
    "calls go to the driver, and freeing waits for all work on the device.",
    remedy="Use a caching allocator or a memory pool (cuMemAllocAsync). In PyTorch, avoid "
    "torch.cuda.empty_cache() in the loop, and try expandable_segments:True if memory is "
    "fragmented near its limit.",
    wrong_when="A phase that legitimately allocates for long, such as loading many models.",
    absorbs=("cpu_starvation", "gpu_saturated", "launch_bound", "host_slow"),
    check=check,
)
