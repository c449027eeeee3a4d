"""Very many tiny launches: the host is the limit though its CPU is never stopped."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case, compare
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent, rate
from gpugauge.model.finding import Severity

IDLE_RATIO = 0.2


def check(case: Case) -> Verdict:
    """A process launches as fast as it can, each launch is small, and it never waits."""
    now, limits = case.now, case.settings
    if now is None or case.after_gap:
        return LookAgain("a whole window of snapshots without a gap")
    if case.starting or not now.processes:
        return LookAgain("processes that are past their start")
    each = now.launches_per_second / now.processes
    if each < case.slack(limits.launch_bound_launches_per_second):
        return FINE
    if now.blocked_ratio > limits.launch_bound_blocked_ratio * (1.25 if case.open_now else 1):
        return FINE
    threads = now.threads_per_launch
    if threads is not None and threads > limits.launch_bound_threads:
        return FINE
    if now.idle_ratio is not None and now.idle_ratio > IDLE_RATIO:
        return FINE  # in bursts: something else of the host takes its time
    issuing = each * now.issue_seconds if now.issue_seconds is not None else None
    spent = ""
    if issuing is not None:
        spent = f" The calls alone take {percent(min(1.0, issuing))} of its time, the rest is "
        spent += "what its own code does for each."
    return Suspicion(
        severity=Severity.INFO,
        sentence=f"is limited by its launches: {rate(each)} of them per process, small ones, and "
        f"it hardly ever waits for the GPU ({percent(now.blocked_ratio)}).{spent}",
        remedy=RULE.remedy,
        evidence=(
            *compare("launches per process", "1/s", each, None),
            *compare("threads per launch", "count", threads, None),
            *compare("blocked", "ratio", now.blocked_ratio, None),
            *compare("cost of issuing a launch", "s", now.issue_seconds, None),
            *compare("known idle", "ratio", now.idle_ratio, None),
        ),
        explained_ratio=issuing or 0.0,
        lacked=() if threads is not None else ("the size of launches",),
        harm=False,
    )


RULE = Rule(
    id="launch_bound",
    title="Launch-bound",
    needs=("launches", "blocked time", "threads per launch", "issue cost"),
    settings=(
        "launch_bound_launches_per_second",
        "launch_bound_blocked_ratio",
        "launch_bound_threads",
    ),
    meaning="The program launches very many small functions and never waits for the GPU: the GPU "
    "is done before the next launch arrives. The time goes into issuing launches, and into what "
    "the program's own code does for each: for eager PyTorch that is most of it.",
    remedy="Capture the step into a CUDA graph (torch.cuda.graph, torch.compile with "
    "mode='reduce-overhead'), fuse small functions, or raise the batch size.",
    wrong_when="Idle time between such launches is not seen, because the GPU is never drained: "
    "known idle stays near 0 though the GPU has time. A large grid of short threads counts as "
    "large.",
    check=check,
)
