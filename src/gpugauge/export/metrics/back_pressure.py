"""Back pressure: host time blocked on the GPU."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Certainty, Kind, Metric
from gpugauge.export.metrics.caveats import SEEN
from gpugauge.model.abi import Slot
from gpugauge.units import seconds

METRICS: tuple[Metric, ...] = (
    Metric(
        name="blocked_seconds_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "cause"),
        help="Host time spent waiting for the GPU, summed over threads, by cause.",
        samples=of.by_cause(lambda s, cause: seconds(s.blocked_ns.get(cause, 0))),
        certainty=Certainty.ESTIMATE,
        meaning="`synchronize`: inside a call that waits for the GPU by nature, its whole "
        "duration. `copy`: inside copies, for those that may return early only what is "
        "beyond twice the learned cost of issuing one. `launch_queue`: inside launches while "
        "the queue of the GPU was full, which is how a loop that never synchronizes feels a "
        "saturated GPU. `allocation`: inside allocations and frees that had to wait. "
        "`launch_other`: launches that took long for another reason, such as loading code. Two "
        "threads that wait for a second are two seconds.",
        wrong_when="`synchronize` is exact. `launch_queue` subtracts the learned issue cost, and "
        "errs by a few points where the host and not the GPU is the limit. Python threads also "
        "wait for the interpreter's lock, outside any call: with two of them the queue reads "
        "lower than wall time less issue time, and rightly so. A thread "
        "that the CPU quota stops inside a launch looks blocked: compare "
        "`gpugauge_cpu_throttled_seconds_total`. Calls still open are in "
        "`gpugauge_inflight_blocked_seconds`, not here; a call whose thread dies inside it is "
        "added here at that moment, though no call is counted.",
    ),
    Metric(
        name="inflight_blocked_seconds",
        kind=Kind.GAUGE,
        labels=(*WORKLOAD, "cause"),
        help="Age of the blocking calls that have not returned, summed over threads, by cause.",
        samples=of.workload(of.open_calls),
        meaning="A call that never returns never reaches `gpugauge_blocked_seconds_total`; here "
        "it rises by a second a second. A value far above the usual step time is a hang. A "
        "cause appears once it has occurred.",
        wrong_when="A call left by longjmp counts as open until its thread calls again or ends.",
    ),
    Metric(
        name="launch_issue_seconds",
        kind=Kind.GAUGE,
        labels=WORKLOAD,
        help="Learned cost of issuing one launch while the queue is not full.",
        samples=of.known(lambda s: None if s.issue_ns is None else seconds(s.issue_ns)),
        certainty=Certainty.ESTIMATE,
        meaning="A trimmed mean over launches made shortly after the GPU had been drained. When it "
        "rises while the GPU does the same work, the host is slower: frequency, neighbours on "
        "the CPU, or a tool that slows calls down.",
        wrong_when="Absent until a hundred such launches are known. It contains some of the cost "
        "of the probes: what lies between reading the clock at entry and at return.",
    ),
    Metric(
        name="sync_calls_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Calls that wait for the GPU: stream, context and event synchronizations.",
        samples=of.calls(Slot.SYNCHRONIZE),
        meaning="How often the host stops for the GPU. With the blocked time it gives the mean "
        "wait; many a second with short waits is a program that synchronizes too often.",
        wrong_when=SEEN,
    ),
    Metric(
        name="poll_calls_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "ready"),
        help="Questions whether the GPU is done, by the answer.",
        samples=of.workload(
            lambda s: (
                (("true",), s.operations.get(Slot.POLL_READY, of.NO_CALLS).calls),
                (("false",), s.operations.get(Slot.POLL_NOT_READY, of.NO_CALLS).calls),
            )
        ),
        meaning='A program that asks instead of waiting burns a CPU core: many `ready="false"` '
        "are waiting that `gpugauge_blocked_seconds_total` cannot show.",
        wrong_when=SEEN,
    ),
)
