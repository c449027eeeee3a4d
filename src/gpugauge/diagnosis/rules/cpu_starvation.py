"""A GPU that waits for its program: fed more slowly than it used to be, and why."""

from __future__ import annotations

from gpugauge.diagnosis.case import SAME_WORK, Case, compare, grown, lost_ratio, more
from gpugauge.diagnosis.figures import Figures
from gpugauge.diagnosis.rule import FINE, LookAgain, Rule, Suspicion, Verdict
from gpugauge.diagnosis.text import percent, times
from gpugauge.model.finding import Evidence, Severity

SAME_CALLS = {**SAME_WORK, "syncs_per_work": 1.5, "dtoh_bytes_per_work": 2.0}
QUIET_RATIO = 0.02
BUSY_IDLE_RATIO = 0.15
UNEXPLAINED_RATIO = 0.25
"""Without a cause it is only told of a workload that never rested, and lost this much."""
ALONE_RATIO = 0.02
MORE_THROTTLED = 0.25
STILL_WORKING_RATIO = 0.02
"""Less than this of the usual work is a pause, not a slower feed."""


def check(case: Case) -> Verdict:
    """The same work arrives more slowly while the GPU has time for it."""
    if case.why_not:
        return LookAgain(case.why_not)
    now = case.now
    assert now is not None  # noqa: S101 - why_not is empty
    if now.work_per_second == 0:
        return FINE
    phase = case.phase(SAME_CALLS)
    if phase is None:
        return LookAgain("a known phase that does the same work")
    usual, limits = phase.usual, case.settings
    lost = lost_ratio(now, phase)
    if lost < case.slack(limits.harm_lost_ratio):
        return FINE
    if case.recent_work_per_second < STILL_WORKING_RATIO * usual.work_per_second:
        return LookAgain("work: it pauses")
    if now.others_busy_ratio - phase.others_high >= limits.noisy_neighbour_busy_ratio:
        return FINE  # not alone: see noisy_neighbour
    throttled = more(now.throttled_ratio, usual.throttled_ratio)
    least = limits.cpu_starvation_throttled_ratio
    if now.quota_cores is not None and now.quota_cores == usual.quota_cores:
        # Under the same quota as ever a little more is how such a program varies.
        least = max(least, MORE_THROTTLED * (usual.throttled_ratio or 0.0))
    is_throttled = throttled >= case.slack(least)
    if grown(now.wait_per_work_seconds, usual.wait_per_work_seconds) > 1.2 and not is_throttled:
        return FINE  # the GPU's side takes longer
    idle = more(now.idle_ratio, usual.idle_ratio)
    no_idle = now.idle_ratio is not None and idle < case.slack(limits.harm_idle_ratio)
    # A program limited by its launches is never drained, so its idle time stays unknown.
    drains = (usual.idle_ratio or 0) + usual.blocked_ratio > 0.1
    if no_idle and drains and not is_throttled:
        return FINE
    found = _cause(case, now, usual, phase.steady, is_throttled)
    if isinstance(found, str):
        return LookAgain(found)
    cause, evidence, severity = found
    quiet = case.checkpoint_seconds
    if not is_throttled and quiet is not None and quiet < limits.cpu_starvation_pause_seconds:
        return LookAgain("time since a large copy to the host: a checkpoint may be written")
    return Suspicion(
        severity=severity,
        sentence=f"feeds its GPU {percent(lost)} less than it used to, and {_others(now)}: "
        f"{cause}.",
        remedy=_REMEDIES[evidence[0].name if evidence else ""],
        evidence=(
            *compare("launches", "1/s", now.work_per_second, usual.work_per_second),
            *compare("copied to the GPU", "bytes/s", now.htod_bytes_per_second,
                     usual.htod_bytes_per_second),
            *compare("blocked", "ratio", now.blocked_ratio, usual.blocked_ratio),
            *compare("known idle", "ratio", now.idle_ratio, usual.idle_ratio),
            *evidence,
        ),
        explained_ratio=idle if now.idle_ratio is not None and idle > 0 else lost,
        lacked=_lacked(now),
        harm=severity is not Severity.INFO,
    )  # fmt: skip


def _cause(
    case: Case, now: Figures, usual: Figures, steady: bool, is_throttled: bool
) -> tuple[str, tuple[Evidence, ...], Severity] | str:
    """Return the cause, its evidence, and how much it matters; or what is lacked to tell."""
    limits = case.settings
    if is_throttled:
        evidence = compare(THROTTLED, "ratio", now.throttled_ratio, usual.throttled_ratio)
        evidence += compare("CPU quota", "cores", now.quota_cores, usual.quota_cores)
        quota = "its CPU quota"
        if now.quota_cores is not None:
            quota += f" of {now.quota_cores:.3g} cores"
            if usual.quota_cores is None:
                quota += ", which it did not have before,"
            elif abs(usual.quota_cores / now.quota_cores - 1) > 0.01:
                quota += f" (before: {usual.quota_cores:.3g})"
        return f"{quota} stops its threads", evidence, Severity.WARNING
    pressures = [
        (more(a, b), name, words, a, b)
        for name, words, a, b in (
            (IO, "its threads wait for storage", now.pressure_io_ratio, usual.pressure_io_ratio),
            (MEMORY, "its threads wait for memory to be reclaimed", now.pressure_memory_ratio,
             usual.pressure_memory_ratio),
            (CPU, "its threads wait for a CPU that others use", now.pressure_cpu_ratio,
             usual.pressure_cpu_ratio),
        )
    ]  # fmt: skip
    most, name, words, a, b = max(pressures, key=lambda p: p[0])
    if most >= case.slack(limits.cpu_starvation_pressure_ratio):
        return words, compare(name, "ratio", a, b), Severity.WARNING
    per_work = grown(now.cpu_per_work_seconds, usual.cpu_per_work_seconds)
    if per_work >= case.slack_factor(limits.cpu_starvation_cpu_ratio):
        evidence = compare(OWN, "s", now.cpu_per_work_seconds, usual.cpu_per_work_seconds)
        words = f"its own code takes {times(per_work)} the CPU time per launch"
        return words, evidence, Severity.WARNING
    always_busy = steady and case.baseline.quiet < QUIET_RATIO
    always_busy = always_busy and (usual.idle_ratio or 0.0) < BUSY_IDLE_RATIO
    if not always_busy or 1 - now.work_per_second / usual.work_per_second < UNEXPLAINED_RATIO:
        return "a cause on this node, and a workload that was always busy: it may be asked for less"
    words = "nothing on this node explains it: it waits for something elsewhere, or is asked less"
    return words, (), Severity.INFO


def _others(now: Figures) -> str:
    if now.others_busy_ratio < ALONE_RATIO:
        return "nobody else works on the device"
    return "the others on the device are no busier than before"


def _lacked(now: Figures) -> tuple[str, ...]:
    wanted = (
        (now.idle_ratio, "known idle time"),
        (now.throttled_ratio, "throttled time of the cgroup"),
        (now.pressure_cpu_ratio, "pressure of the cgroup"),
    )
    return tuple(name for value, name in wanted if value is None)


THROTTLED = "time throttled by the CPU quota"
IO = "time waiting for storage (PSI)"
MEMORY = "time waiting for memory (PSI)"
CPU = "time waiting for a CPU (PSI)"
OWN = "CPU time per launch"
_REMEDIES = {
    THROTTLED: "Raise the CPU limit of the container, or remove it and keep the request.",
    IO: "Look at the storage behind its data: cache the data set on the node, or read ahead more.",
    MEMORY: "Raise its memory limit, or let its loaders hold less: pages are being reclaimed.",
    CPU: "Ask for more CPU, or move what shares its cores: loaders compete for them.",
    OWN: "Profile its host side: what is done per batch on the CPU has grown.",
    "": "Look at what feeds it over the network, and whether it is asked for less.",
}

RULE = Rule(
    id="cpu_starvation",
    title="CPU starvation",
    needs=("launches", "known idle", "blocked time", "cgroup CPU and pressure", "a baseline"),
    settings=(
        "harm_lost_ratio",
        "harm_idle_ratio",
        "cpu_starvation_throttled_ratio",
        "cpu_starvation_pressure_ratio",
        "cpu_starvation_cpu_ratio",
        "cpu_starvation_pause_seconds",
    ),
    meaning="Launches, copies to the GPU and blocked time fall together, known idle time rises, "
    "and nobody else works on the device: the GPU waits for the program. The cause is told apart "
    "by the cgroup: its CPU quota stops it; it waits for storage, for memory or for a CPU; or its "
    "own code takes more CPU time per launch. If none of these moved it is information only: "
    "it may wait for another machine, or be asked for less.",
    remedy="By the cause: raise the CPU limit; speed up the storage; raise the memory limit; "
    "give it more CPU; profile its host side.",
    wrong_when="A service that receives fewer requests looks the same; it is only reported where "
    "the cgroup shows a cause or its demand was always steady. Pressure needs cgroup v2 and "
    "Linux built with PSI; without it the cause may stay unknown.",
    absorbs=("launch_bound",),
    check=check,
)
