"""A device held for long without any work on it, and what that costs."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.rule import FINE, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import seconds_text
from gpugauge.model.finding import Evidence, Severity
from gpugauge.units import bytes_text


def check(case: Case) -> Verdict:
    """A context or memory is held, and no work came for a long time."""
    if case.idle_for_seconds < case.settings.idle_holder_seconds:
        return FINE
    contexts, held = case.of.contexts, case.of.memory_held_bytes
    if not contexts and not held:
        return FINE
    idle = case.idle_for_seconds
    what = f"holds {bytes_text(held)} of GPU memory" if held else "holds a context on a GPU"
    evidence = [
        Evidence(name="time without work", unit="s", now=idle),
        Evidence(name="contexts", unit="count", now=contexts),
    ]
    if held:
        evidence.append(Evidence(name="memory held", unit="bytes", now=held))
    cost, busy = "", any(n.now.work_per_second > 0 for n in case.neighbours)
    device = case.device
    price = case.price.of(device.model, device.mig_profile) if device is not None else None
    if price is not None and not busy:
        share = price / (1 + len(case.neighbours))
        unit = f"{case.price.currency}/h"
        evidence.append(Evidence(name="price of the device", unit=unit, now=share))
        cost = f", at {share:.2f} {case.price.currency} per hour"
    elif busy:
        cost = ", which others on the device could use"
    return Suspicion(
        severity=Severity.WARNING,
        sentence=f"{what} and has given it no work for {seconds_text(idle)}{cost}.",
        remedy=RULE.remedy,
        evidence=tuple(evidence),
        pids=tuple(process.pid for process, _ in case.processes[:16]),
        explained_ratio=1.0,
        lacked=() if held is not None else ("memory held, by NVML",),
        since_seconds=idle,
        at_once=True,
        harm=False,
    )


RULE = Rule(
    id="idle_holder",
    title="Idle holder",
    needs=("launches", "contexts", "memory held"),
    settings=("idle_holder_seconds",),
    meaning="A workload has a context or memory on a device and has given it no work for a long "
    "time. Nobody else can use what it holds. With a price in `[price.per_gpu_hour]` it is shown "
    "as money, divided by those that hold the device.",
    remedy="Ask the owner whether it can end: a forgotten notebook, a finished job that did not "
    "exit, a replica that is never asked. A service may scale to zero.",
    wrong_when="A stand-by replica is meant to be idle. A process that was there before the agent "
    "is seen idle only from then on.",
    absorbs=("held_above_requested",),
    check=check,
)
