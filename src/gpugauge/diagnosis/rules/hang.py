"""A call that does not return while nothing is launched, and who the others wait for."""

from __future__ import annotations

from gpugauge.diagnosis.case import Case
from gpugauge.diagnosis.rule import FINE, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import clean, seconds_text
from gpugauge.model.finding import Evidence, Party, Severity
from gpugauge.model.process import Process, ProcessDevice

NS = 1e-9


def check(case: Case) -> Verdict:
    """A process has a call open for very long and launched nothing meanwhile."""
    limits = case.settings
    longest = case.baseline.longest_wait_seconds
    least = max(limits.hang_seconds, limits.hang_longest_ratio * longest)
    hung: list[tuple[float, str, Process]] = []
    others: list[Process] = []
    for process, device in case.processes:
        if not process.alive:
            continue
        age, symbol = _oldest(device)
        # The launch that hangs is counted when it returns, so nothing is counted since.
        if age >= least and case.quiet_processes.get(process.number, 0.0) >= age * 0.9 - 2.0:
            hung.append((age, symbol, process))
        elif age < limits.hang_seconds * 0.5:
            others.append(process)
    if not hung:
        return _as_a_whole(case, least)
    age, symbol, _ = max(hung, key=lambda h: h[0])
    waiting = {process.number for _, _, process in hung}
    others += _rest_of_job(case, waiting, limits.hang_seconds * 0.5)
    where = clean(symbol) or "a call of the driver"
    count = "" if len(hung) == 1 else f" in {len(hung)} processes"
    sentence = f"hangs{count}: {where} is open for {seconds_text(age)} and nothing is launched"
    if others:
        names = ", ".join(f"{clean(p.comm)} ({p.pid})" for p in others[:3])
        sentence += f"; of the same job, {names} does not wait and may be what the rest waits for"
    return Suspicion(
        severity=Severity.CRITICAL,
        sentence=sentence + ".",
        remedy=RULE.remedy,
        evidence=(
            Evidence(name=f"age of {where}", unit="s", now=age, before=longest or None),
            Evidence(name="processes that hang", unit="count", now=len(hung)),
        ),
        parties=tuple(
            Party(owner=p.owner, process_number=p.number, pid=p.pid, command=p.comm,
                  role="not waiting")
            for p in others[:8]
        ),
        pids=tuple(process.pid for _, _, process in hung),
        explained_ratio=1.0,
        since_seconds=age,
        at_once=True,
    )  # fmt: skip


def _as_a_whole(case: Case, least: float) -> Verdict:
    """Where single processes are not known: the age of all open calls, and no work at all."""
    age = max((call.oldest_ns for call in case.of.open_calls.values()), default=0) * NS
    if case.processes or age < least or case.idle_for_seconds < min(age, least) * 0.9 - 2.0:
        return FINE
    return Suspicion(
        severity=Severity.CRITICAL,
        sentence=f"hangs: a call is open for {seconds_text(age)} and nothing is launched.",
        remedy=RULE.remedy,
        evidence=(Evidence(name="age of the open calls", unit="s", now=age),),
        explained_ratio=1.0,
        lacked=("open calls by process",),
        since_seconds=age,
        at_once=True,
    )


def _oldest(device: ProcessDevice) -> tuple[float, str]:
    if not device.open_calls:
        return 0.0, ""
    call = max(device.open_calls.values(), key=lambda c: c.oldest_ns)
    return call.oldest_ns * NS, call.oldest_symbol


def _rest_of_job(case: Case, waiting: set[int], waits_seconds: float) -> list[Process]:
    """Return processes of the same workload, on any device here, that do not wait."""
    if not (case.owner.workload or case.owner.pod):
        return []
    here = {process.number for process, _ in case.processes}
    return [
        process
        for process in case.snapshot.processes
        if process.alive
        and process.number not in waiting | here
        and process.owner.namespace == case.owner.namespace
        and process.owner.workload == case.owner.workload
        and process.owner.container == case.owner.container
        and all(_oldest(device)[0] < waits_seconds for device in process.devices)
    ]


RULE = Rule(
    id="hang",
    title="Hang",
    needs=("open calls with their age", "launches by process"),
    settings=("hang_seconds", "hang_longest_ratio"),
    meaning="A call into the driver has been open for very long and its process launches nothing. "
    "In a job of several processes those that wait are usually healthy: they wait, inside a "
    "collective operation, for one that never came. That one is named if it is on this node.",
    remedy="Look at the process that does not wait: its stack (py-spy dump --nonblocking), its "
    "storage and network. If all wait, look for Xid lines in the log of Linux and for a lost "
    "peer on another node.",
    wrong_when="GPU work that really takes longer than the limit, or a server that parks a "
    "thread in the driver while it has nothing to do.",
    absorbs=("idle_holder", "gpu_saturated", "rank_straggler", "cpu_starvation"),
    check=check,
)
