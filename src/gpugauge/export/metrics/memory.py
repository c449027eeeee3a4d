"""Memory: what was requested."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Certainty, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        name="memory_requested_bytes",
        kind=Kind.GAUGE,
        labels=(*WORKLOAD, "family"),
        help="Memory of live allocations, as requested, by family.",
        samples=of.memory(lambda m: m.requested_bytes),
        certainty=Certainty.LOWER_BOUND,
        meaning="What the program asked for and has not freed: `device`, `managed`, `pool`, "
        "`virtual`, `array`, and on the host `host` and `host_registered`.",
        wrong_when="Exact while `gpugauge_agent_untracked_allocations_total` stands still; memory "
        "that a graph allocates or frees, and the bytes above the first level of a mipmapped "
        "array, are not seen. Absent "
        "for workloads with a process not seen from its start. A framework with an allocator "
        "of its own requests large blocks and divides them itself.",
    ),
    Metric(
        name="memory_requested_peak_bytes",
        kind=Kind.GAUGE,
        labels=(*WORKLOAD, "family"),
        help="Highest requested memory so far, by family.",
        samples=of.memory(lambda m: m.peak_bytes),
        certainty=Certainty.ESTIMATE,
        meaning="What the workload needed at its worst moment, also when that lay between scrapes.",
        wrong_when="The peaks of several processes, or of several contexts of one, are added "
        "though they may not coincide.",
    ),
    Metric(
        name="memory_held_bytes",
        kind=Kind.GAUGE,
        labels=WORKLOAD,
        help="Device memory held, by NVML.",
        samples=of.known(lambda s: s.memory_held_bytes),
        meaning="What is missing for others. Above the requested memory by the context, by "
        "granularity of 2 MiB, and by what the driver keeps in its own pool.",
        wrong_when="Absent where NVML does not list the process, under MPS for one.",
    ),
    Metric(
        name="allocations_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "family"),
        help="Successful allocations, by family.",
        samples=of.memory(lambda m: m.allocations),
        meaning="A steady rate inside a training loop is a program without a caching allocator; "
        "allocations may wait for the whole device.",
        wrong_when="Absent for workloads with a process not seen from its start.",
    ),
    Metric(
        name="frees_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "family"),
        help="Allocations given back, by family.",
        samples=of.memory(lambda m: m.frees),
        meaning="Allocations less frees are the live ones; a difference that only grows is a leak.",
        wrong_when="What dies with its context or process is not a free.",
    ),
    Metric(
        name="contexts",
        kind=Kind.GAUGE,
        labels=WORKLOAD,
        help="Live CUDA contexts.",
        samples=of.known(lambda s: s.contexts),
        meaning="Each holds some hundred megabytes of device memory. Green contexts are counted "
        "too, though they share the primary one's.",
        wrong_when="Contexts made before the probes were there are not known.",
    ),
)
