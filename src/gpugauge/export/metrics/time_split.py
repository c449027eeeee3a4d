"""Time: how wall time splits between host and GPU."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import OWNER, WORKLOAD, Certainty, Kind, Metric
from gpugauge.units import seconds

METRICS: tuple[Metric, ...] = (
    Metric(
        name="process_seconds_total",
        kind=Kind.COUNTER,
        labels=OWNER,
        help="Time for which processes with GPU calls were observed.",
        samples=of.owner_time(lambda t: t.observed_ns),
        meaning="The denominator of every share of time: two processes observed for a second are "
        "two process-seconds.",
        wrong_when="Begins at a process's first traced call, not at its start.",
    ),
    Metric(
        name="process_time_seconds_total",
        kind=Kind.COUNTER,
        labels=(*OWNER, "state"),
        help="Observed process time, split by who waited for whom.",
        samples=of.time_split,
        certainty=Certainty.LOWER_BOUND,
        meaning="`host_waits`: at least one thread waited for the GPU. `gpu_waits`: nothing was "
        "outstanding on the GPU, so it waited for this process. `overlapped`: both worked. "
        "`unobserved`: not known. The four add up to `gpugauge_process_seconds_total`.",
        wrong_when="`host_waits` and `gpu_waits` are lower bounds, so `overlapped` is an upper "
        "one. On a shared GPU, `gpu_waits` says that this process gave it nothing, not that "
        "the GPU was idle.",
    ),
    Metric(
        name="blocked_wall_seconds_total",
        kind=Kind.COUNTER,
        labels=OWNER,
        help="Time in which at least one thread of a process waited for the GPU.",
        samples=of.owner_time(lambda t: t.host_waits_ns),
        certainty=Certainty.LOWER_BOUND,
        meaning='The "some" of pressure stall information, for the GPU. Divided by '
        "`gpugauge_process_seconds_total` it is the share of time under back pressure.",
        wrong_when="Waits inside launches and copies are learned at their return and counted only "
        "where no other thread waited, so it never exceeds the truth.",
    ),
    Metric(
        name="known_idle_seconds_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Time in which a process is known to have had nothing outstanding on the device.",
        samples=of.known(lambda s: None if s.known_idle_ns is None else seconds(s.known_idle_ns)),
        certainty=Certainty.LOWER_BOUND,
        meaning="From a synchronization that drained all that was submitted to the next "
        "submission: the GPU waited for this process.",
        wrong_when="A bound and not a measure: tight for programs that starve the GPU or call "
        "seldom, loose for those limited by their launches: between short launches the GPU is "
        "idle, but nobody waited and saw it. Work on several streams is known to be over only "
        "when the whole context was waited for. A copy between devices by unified addresses "
        "counts as work of the device whose stream it is on, and not of the other one: there it "
        "is idle though it copies. Absent, never 0, where submissions are not all seen. Idle of "
        "one process is not idle of a shared GPU.",
    ),
)
