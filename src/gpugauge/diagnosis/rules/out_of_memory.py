"""An allocation that failed for lack of memory: what was asked, and what was free."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.rule import FINE, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import owner_text
from gpugauge.model.abi import Slot
from gpugauge.model.finding import Evidence, Party, Severity
from gpugauge.units import bytes_text

OUT_OF_MEMORY = 2


def check(case: Case) -> Verdict:
    """An allocation answered CUDA_ERROR_OUT_OF_MEMORY just now."""
    failed = case.errors.get((Slot.ALLOCATE, OUT_OF_MEMORY), 0)
    if not failed:
        return FINE
    memory = (case.of.memory or {}).values()
    asked = max((m.failed_bytes for m in memory), default=0)
    device = case.device
    free = None
    if device is not None and None not in (device.memory_total_bytes, device.memory_used_bytes):
        free = (device.memory_total_bytes or 0) - (device.memory_used_bytes or 0)
        free = max(0, free - (device.memory_reserved_bytes or 0))
    evidence = [Evidence(name="allocations that failed", unit="count", now=failed)]
    sentence, lacked = "ran out of GPU memory", []
    if asked:
        sentence += f" asking for {bytes_text(asked)}"
        evidence.append(Evidence(name="asked for", unit="bytes", now=asked))
    else:
        lacked.append("the size that was asked for")
    if free is not None:
        sentence += f" when {bytes_text(free)} were free"
        evidence.append(Evidence(name="free on the device", unit="bytes", now=free))
    else:
        lacked.append("free memory, by NVML")
    if asked and free is not None and asked < free:
        sentence += ", in pieces too small or taken again by now"
    holders = [n for n in case.holders if n[1] > 0]
    if holders:
        owner, held, pid, command = max(holders, key=lambda h: h[1])
        sentence += f"; {owner_text(owner, command, pid)} holds {bytes_text(held)}"
        evidence.append(
            Evidence(name="held by others", unit="bytes", now=sum(h[1] for h in holders))
        )
    stopped = not any(process.alive for process, _ in case.processes)
    return Suspicion(
        severity=Severity.CRITICAL if stopped else Severity.WARNING,
        sentence=sentence + (", and ended." if stopped else "."),
        remedy=RULE.remedy,
        evidence=tuple(evidence),
        parties=tuple(
            Party(owner=owner, process_number=0, pid=pid, command=command, role="neighbour")
            for owner, _, pid, command in holders[:8]
        ),
        pids=tuple(process.pid for process, _ in case.processes[:16]),
        explained_ratio=1.0 if stopped else 0.0,
        lacked=tuple(lacked),
        at_once=True,
        keep_seconds=case.settings.event_seconds,
        harm=False,
    )


RULE = Rule(
    id="out_of_memory",
    title="Out of memory",
    needs=("errors by code", "requested memory", "memory of the device, by NVML"),
    settings=("event_seconds",),
    meaning="An allocation on the device failed. What was asked for is the size of the last one "
    "that failed; what was free is NVML's answer at the same tick, so both are of one second.",
    remedy="Lower the batch size or sequence length, or move the other holder of the device. If "
    "more was free than asked for, memory is fragmented: in PyTorch set expandable_segments:True.",
    wrong_when="Frameworks try, fail, give back their cache and try again: then work goes on and "
    "this is only slow. A failed allocation of host memory is another error.",
    absorbs=("cuda_errors", "idle_holder"),
    check=check,
)
