"""A workload that waits for the GPU more often than it used to: "we only added logging"."""

from __future__ import annotations

from gpugauge.diagnosis.baseline import Phase
from gpugauge.diagnosis.case import SAME_BATCH, SAME_WORK, Case, compare, grown, lost_ratio, more
from gpugauge.diagnosis.figures import Figures
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent
from gpugauge.model.finding import Evidence, Severity
from gpugauge.units import bytes_text

LEAST_PER_WORK = 1e-4
"""One call in 10,000 launches is as good as none."""
LEAST_ADDED = 8
QUIET_RATIO = 0.05
LONGER_WAIT = 1.3
LAUNCHES_PER_CALL = 3.0
"""Added with a call that reads what they made."""
MANY_TIMES = 10.0
HOST_BOUND_RATIO = 0.1
COST_RATIO = 0.06
"""Newly waited by a workload that never waited."""
KINDS = ("syncs_per_work", "dtoh_copies_per_work", "htod_copies_per_work")


def check(case: Case) -> Verdict:
    """Calls that wait have become more per launch, and work is lost to them."""
    if case.why_not:
        return LookAgain(case.why_not)
    now = case.now
    assert now is not None  # noqa: S101 - why_not is empty
    if now.work_per_second == 0:
        return FINE
    phase = _phase(case, now)
    if phase is None:
        return LookAgain("a known phase that does the same work")
    usual, limits = phase.usual, case.settings
    calls, calls_before = _calls(now), max(_calls(usual), LEAST_PER_WORK)
    more_calls = max(_grown(now, usual, name) for name in KINDS)
    if more_calls < case.slack_factor(limits.added_synchronization_calls_ratio):
        return FINE
    added = max(getattr(now, n) - getattr(usual, n) for n in KINDS) * now.work_per_second
    if added * case.now_seconds < LEAST_ADDED:
        return FINE  # a window that begins within a step has as many
    # What would be waited if each launch still cost what it did, and what is waited now.
    waits_before = usual.waits_ratio * now.work_per_second / usual.work_per_second
    idle = max(0.0, more(now.idle_ratio, usual.idle_ratio))
    # A program that always waited once a step does not wait longer, but the GPU runs dry
    # after each wait: both are the cost of the added calls.
    cost = max(0.0, now.waits_ratio - waits_before) + idle
    lost = lost_ratio(now, phase)
    # Where the host is the limit, its own part of each read costs as much as the wait in it.
    if more_calls >= MANY_TIMES and lost >= limits.harm_lost_ratio and _is_host_bound(usual):
        cost = max(cost, lost)
    if cost < case.slack(limits.added_synchronization_wait_ratio):
        return FINE
    batches_lost = 0.0
    if usual.htod_bytes_per_second and phase.steady:
        batches_lost = 1 - now.htod_bytes_per_second / usual.htod_bytes_per_second
    # A loss that small must stand out of how much the rate varies anyway.
    spread = 1 - phase.work_low / usual.work_per_second
    least = max(limits.added_synchronization_lost_ratio, min(3 * spread, limits.harm_lost_ratio))
    least = case.slack(least)
    harm = max(lost, batches_lost, idle)
    if lost < least and batches_lost < least and idle < case.slack(limits.harm_idle_ratio):
        # Where the host never waited nor rested, no wait can have moved: what it waits now is
        # taken from its work, though the rate of work may hide it while others do less.
        if not _is_host_bound(usual) or cost < case.slack(max(COST_RATIO, least / 2)):
            return FINE
        harm = max(harm, cost)
    longer = grown(now.wait_per_work_seconds, usual.wait_per_work_seconds)
    if not (phase.steady and case.baseline.quiet < QUIET_RATIO) and longer < LONGER_WAIT:
        return LookAgain("a steady demand, or a longer wait per launch: it may be asked for less")
    what, size, evidence = _operation(now, usual)
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"waits for the GPU more often than it used to: {calls * 1000:.1f} "
        f"synchronizations and copies per 1,000 launches, usually {calls_before * 1000:.1f}; "
        f"added were mostly {what}{size}, and {percent(harm)} of its work is lost.",
        remedy=RULE.remedy,
        evidence=(
            *compare(
                "synchronizations and copies per 1,000 launches",
                "count",
                calls * 1000,
                _calls(usual) * 1000,
            ),
            *evidence,
            *compare("blocked in them", "ratio", now.waits_ratio, usual.waits_ratio),
            *compare("blocked in all", "ratio", now.blocked_ratio, usual.blocked_ratio),
            *compare("launches", "1/s", now.work_per_second, usual.work_per_second),
            *compare(
                "copied to the host", "bytes/s", now.dtoh_bytes_per_second,
                usual.dtoh_bytes_per_second,
            ),
            *compare("known idle", "ratio", now.idle_ratio, usual.idle_ratio),
        ),
        explained_ratio=cost,
        # So many times the calls are no hiccup of a rate.
        confirm_ratio=1.0 if harm >= limits.harm_lost_ratio or more_calls >= MANY_TIMES else 1.35,
        lacked=() if now.idle_ratio is not None else ("known idle time",),
    )  # fmt: skip


def _only_reads_added(now: Figures, usual: Figures) -> bool:
    """Whether the same batches have launches added that go with added calls: a norm, and its read.

    A phase of other work has other launches, however many are read.
    """
    if usual.threads_per_input_byte is None:
        return False
    added = 1 / now.htod_bytes_per_work - 1 / usual.htod_bytes_per_work
    calls = _calls(now) / now.htod_bytes_per_work - _calls(usual) / usual.htod_bytes_per_work
    return 0 < added <= LAUNCHES_PER_CALL * calls


def _phase(case: Case, now: Figures) -> Phase | None:
    """Return the phase of the same work, or of the same batches with reads added."""
    same = case.phase(SAME_WORK)
    if same is not None or now.threads_per_input_byte is None:
        return same
    phase = case.phase(SAME_BATCH)
    return phase if phase is not None and _only_reads_added(now, phase.usual) else None


def _is_host_bound(usual: Figures) -> bool:
    return max(usual.blocked_ratio, usual.idle_ratio or 0.0) < HOST_BOUND_RATIO


def _grown(now: Figures, usual: Figures, name: str) -> float:
    return float(getattr(now, name)) / max(float(getattr(usual, name)), LEAST_PER_WORK)


def _calls(of: Figures) -> float:
    return of.syncs_per_work + of.dtoh_copies_per_work + of.htod_copies_per_work


def _operation(now: Figures, usual: Figures) -> tuple[str, str, tuple[Evidence, ...]]:
    """Return the operation that was added most, its typical size, and the numbers of it."""
    candidates = (
        ("copies to the host", "dtoh_copies_per_work", "dtoh_bytes_per_work"),
        ("synchronizations", "syncs_per_work", ""),
        ("copies to the GPU", "htod_copies_per_work", "htod_bytes_per_work"),
    )
    # A read of a value is a copy and a synchronization: name the copy, it tells more.
    name, calls, size = max(
        candidates,
        key=lambda c: (getattr(now, c[1]) - getattr(usual, c[1])) * (1.01 if c[2] else 1.0),
    )
    count, before = getattr(now, calls), getattr(usual, calls)
    evidence = compare(f"{name} per 1,000 launches", "count", count * 1000, before * 1000)
    if not size or not count:
        return name, "", evidence
    added = max(count - before, count * 0.01)
    each = max(0.0, getattr(now, size) - getattr(usual, size)) / added
    if grown(count, before) < 1.05:
        each = getattr(now, size) / count
    evidence += (Evidence(name=f"typical size of added {name}", unit="bytes", now=each),)
    return name, f" of {bytes_text(each)} each", evidence


RULE = Rule(
    id="added_synchronization",
    title="Added synchronization",
    needs=("launches", "synchronizations", "copies", "blocked time", "a learned baseline"),
    settings=(
        "added_synchronization_calls_ratio",
        "added_synchronization_lost_ratio",
        "added_synchronization_wait_ratio",
        "harm_idle_ratio",
    ),
    meaning="The program asks for results of the GPU more often than it did: per launch there "
    "are more synchronizations or copies, more time is blocked in them, and work is lost. Reading "
    "a value for a log line (`.item()`, `.cpu()`, `print(tensor)`) is the usual reason. The "
    "ratio per launch is compared, because it survives a job that slows down. Launches that are "
    "added with the calls, such as a norm that is then read, do not hide them.",
    remedy="Look at what changed in the code since then; `gpugauge diagnose` shows the lines "
    "where a Python program waits. Log less often, keep sums on the GPU and read them once in "
    "many steps, or copy without waiting into pinned memory.",
    wrong_when="A new phase that launches functions of the same size but reads back more looks "
    "alike until it has been seen for some minutes. It says nothing about a program that "
    "always synchronized so often.",
    absorbs=("transfer_bound", "gpu_saturated", "launch_bound"),
    check=check,
)
