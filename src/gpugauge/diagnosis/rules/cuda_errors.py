"""Calls that fail, by code."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.rule import FINE, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import rate
from gpugauge.model.abi import Slot
from gpugauge.model.finding import Evidence, Severity
from gpugauge.vendors.cuda.results import CURESULT

CONTEXT_LOST = frozenset(
    {46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999}
)
"""After these the context can only be destroyed; NVIDIA's driver API manual says so of each
("the process must be terminated and relaunched"), and 46, 214, 220 name hardware."""
HARDWARE = frozenset({46, 214, 220, 226})
OUT_OF_MEMORY = 2
NOT_FAULTS = frozenset({0, 4, 34, 500, 600, 704, 705, 708, 712, 713})
"""Answers that programs ask for: not ready, not found, already enabled, shutting down."""


def check(case: Case) -> Verdict:
    """A code after which the context is lost, or others in numbers."""
    counts: dict[int, int] = {}
    for (slot, code), count in case.errors.items():
        if code not in NOT_FAULTS and (slot, code) != (Slot.ALLOCATE, OUT_OF_MEMORY):
            counts[code] = counts.get(code, 0) + count
    lost = {code: count for code, count in counts.items() if code in CONTEXT_LOST}
    window = case.now_seconds
    many = {
        code: count
        for code, count in counts.items()
        if not case.starting and count / window >= case.settings.cuda_errors_per_second
    }
    shown = lost or many
    if not shown:
        return FINE
    code = max(shown, key=lambda each: shown[each])
    slots = sorted({s.name.lower() for (s, c) in case.errors if c == code})
    name = CURESULT.get(code, f"an error of unknown code {code}")
    sentence = f"gets {name} ({code}) from {', '.join(slots)} calls"
    if lost:
        sentence += ": its context is lost, and every later call fails"
        if code in HARDWARE:
            sentence += ", and the device itself is at fault"
    else:
        sentence += f", {rate(shown[code] / window)}"
    return Suspicion(
        severity=Severity.CRITICAL if lost else Severity.WARNING,
        sentence=sentence + ".",
        remedy=RULE.remedy,
        evidence=tuple(
            Evidence(name=CURESULT.get(each, f"code {each}"), unit="count", now=count)
            for each, count in sorted(shown.items(), key=lambda item: -item[1])[:8]
        ),
        pids=tuple(process.pid for process, _ in case.processes[:16]),
        explained_ratio=1.0 if lost else 0.0,
        at_once=bool(lost),
        keep_seconds=case.settings.event_seconds if lost else 0.0,
        harm=False,
    )


RULE = Rule(
    id="cuda_errors",
    title="CUDA errors",
    needs=("errors by code",),
    settings=("cuda_errors_per_second", "event_seconds"),
    meaning="Driver calls fail. Some codes end the context (an illegal address, a failed launch, "
    "a hardware error): they are reported at the first. Others only when they come in numbers.",
    remedy="For 700, 716 and 719 run the program with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer "
    "to find the launch. For 214 and 220 look for Xid lines in the log of Linux and drain the "
    "node. For the others, the code's name tells what was asked wrongly.",
    wrong_when="Errors of asynchronous work appear in a later call, so the operation named is not "
    "always the one at fault. Calls without a return probe have no errors.",
    absorbs=("idle_holder",),
    check=check,
)
