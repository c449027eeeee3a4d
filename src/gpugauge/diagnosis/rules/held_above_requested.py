"""Memory held for a workload far beyond what it asked for."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.columns import REQUESTED, totals
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.model.finding import Evidence, Severity
from gpugauge.units import GIB, bytes_text

CONTEXT_BYTES = GIB
"""Taken for a context whose own memory was not seen: above the 0.5 GiB of a plain one."""


def check(case: Case) -> Verdict:
    """NVML's figure exceeds requests and contexts by much."""
    held = case.of.memory_held_bytes
    if held is None:
        return LookAgain("memory held, by NVML")
    limits = case.settings
    if held < limits.held_above_requested_bytes:
        return FINE
    if case.of.memory is None or not all(d.memory_complete for _, d in case.processes):
        return LookAgain("requested memory from the start of the process")
    requested = totals(case.of)[REQUESTED]
    known = [d.context_bytes for _, d in case.processes]
    contexts = sum(CONTEXT_BYTES if size is None else size for size in known)
    if not known:
        contexts = CONTEXT_BYTES * max(1, case.of.contexts)
    beyond = held - requested - contexts
    if beyond < case.slack(limits.held_above_requested_bytes):
        return FINE
    if beyond < case.slack(limits.held_above_requested_ratio) * held:
        return FINE
    return Suspicion(
        severity=Severity.INFO,
        sentence=f"has {bytes_text(held)} of GPU memory held for it and asked for "
        f"{bytes_text(requested)}: {bytes_text(beyond)} are neither requested nor its contexts'.",
        remedy=RULE.remedy,
        evidence=(
            Evidence(name="memory held", unit="bytes", now=held),
            Evidence(name="memory requested", unit="bytes", now=requested),
            Evidence(name="contexts", unit="bytes", now=contexts),
        ),
        pids=tuple(process.pid for process, _ in case.processes[:16]),
        explained_ratio=0.0,
        lacked=("the size of its contexts",) if None in known or not known else (),
        harm=False,
    )


RULE = Rule(
    id="held_above_requested",
    title="Held far above requested",
    needs=("requested memory", "memory held, by NVML", "size of contexts"),
    settings=("held_above_requested_bytes", "held_above_requested_ratio"),
    meaning="NVML says that far more memory is held for the workload than it asked for by calls, "
    "also after its contexts are subtracted. The driver's own pool keeps freed memory, graphs and "
    "libraries hold workspaces, and local memory of GPU functions is reserved for all threads.",
    remedy="Trim the pool (cuMemPoolTrimTo, release threshold), look at graphs that are kept, and "
    "at GPU functions with large local arrays.",
    wrong_when="Memory imported from another process is held but not requested here. A caching "
    "allocator's cache counts as requested, so it never shows in this rule.",
    check=check,
)
