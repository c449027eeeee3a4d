"""Time that goes into copies between host and device."""

from __future__ import annotations

from gpugauge.diagnosis.case import SAME_WORK, Case, compare, grown, lost_ratio
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent
from gpugauge.model.finding import Severity
from gpugauge.units import bytes_text

CHECKPOINT_SECONDS = 12.0
"""Large copies to the host that have not gone on for longer may be a checkpoint."""


def check(case: Case) -> Verdict:
    """A large share of time is blocked in copies, while work goes on."""
    now, limits = case.now, case.settings
    if now is None or case.after_gap:
        return LookAgain("a whole window of snapshots without a gap")
    if case.starting:
        return LookAgain("processes that are past their start")
    if now.blocked_copy_ratio < case.slack(limits.transfer_bound_blocked_ratio):
        return FINE
    moved = now.htod_bytes_per_second + now.dtoh_bytes_per_second
    if moved < case.slack(limits.transfer_bound_bytes_per_second) or not now.work_per_second:
        return FINE
    bursting = case.burst_seconds is not None and case.burst_seconds < CHECKPOINT_SECONDS
    if bursting or case.recent_work_per_second < 0.2 * now.work_per_second:
        return LookAgain("work: a checkpoint may be written")
    to_gpu = now.htod_bytes_per_second >= now.dtoh_bytes_per_second
    phase = case.phase({"threads_per_launch": SAME_WORK["threads_per_launch"]})
    lost, before = 0.0, None if phase is None else phase.usual
    if phase is not None and before is not None and not case.why_not:
        wider = grown(now.blocked_copy_ratio, before.blocked_copy_ratio) >= 1.3
        lost = lost_ratio(now, phase) if wider or not before.blocked_copy_ratio else 0.0
    harmed = lost >= limits.harm_lost_ratio
    speed = moved / now.blocked_copy_ratio / max(1.0, now.processes)
    return Suspicion(
        severity=Severity.WARNING if harmed else Severity.INFO,
        sentence=f"spends {percent(min(1.0, now.blocked_copy_ratio))} of its time waiting in "
        f"copies, mostly {'to the GPU' if to_gpu else 'to the host'}, at "
        f"{bytes_text(speed)}/s while it waits"
        + (f"; {percent(lost)} of its work is lost." if harmed else "."),
        remedy=RULE.remedy,
        evidence=(
            *compare("blocked in copies", "ratio", now.blocked_copy_ratio,
                     before.blocked_copy_ratio if before else None),
            *compare("copied to the GPU", "bytes/s", now.htod_bytes_per_second,
                     before.htod_bytes_per_second if before else None),
            *compare("copied to the host", "bytes/s", now.dtoh_bytes_per_second,
                     before.dtoh_bytes_per_second if before else None),
            *compare("launches", "1/s", now.work_per_second,
                     before.work_per_second if before else None),
        ),
        explained_ratio=now.blocked_copy_ratio - (before.blocked_copy_ratio if before else 0.0),
        harm=harmed,
    )  # fmt: skip


RULE = Rule(
    id="transfer_bound",
    title="Transfer-bound",
    needs=("blocked time in copies", "bytes by direction", "launches"),
    settings=(
        "transfer_bound_blocked_ratio",
        "transfer_bound_bytes_per_second",
        "harm_lost_ratio",
    ),
    meaning="A large part of the host's time is spent inside copies between host and device. "
    "Where it was always so this is information; where it has grown and work is lost, a warning.",
    remedy="Copy from pinned memory and without waiting (pin_memory, non_blocking), copy less "
    "often in larger pieces, or keep the data on the GPU.",
    wrong_when="Whether memory is pinned is not visible at the call and not claimed. A copy also "
    "waits for the work before it in its stream.",
    absorbs=("gpu_saturated",),
    check=check,
)
