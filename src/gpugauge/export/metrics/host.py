"""The host side of a pod: CPU and pressure."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import OWNER, Kind, Metric
from gpugauge.units import seconds

METRICS: tuple[Metric, ...] = (
    Metric(
        name="cpu_throttled_seconds_total",
        kind=Kind.COUNTER,
        labels=OWNER,
        help="Time for which the CPU quota stopped the container.",
        samples=of.host(
            lambda h: None if h.cpu_throttled_ns is None else seconds(h.cpu_throttled_ns)
        ),
        meaning="A starved GPU with this rising is a container with too small a CPU limit.",
        wrong_when="Absent without a quota or without cgroup statistics.",
    ),
    Metric(
        name="cpu_quota_cores",
        kind=Kind.GAUGE,
        labels=OWNER,
        help="CPU cores that the container may use.",
        samples=of.host(lambda h: h.cpu_quota_cores),
        meaning="Its CPU limit, as Linux enforces it.",
        wrong_when="Absent where there is no limit.",
    ),
    Metric(
        name="cpu_seconds_total",
        kind=Kind.COUNTER,
        labels=OWNER,
        help="CPU time used by the container.",
        samples=of.host(lambda h: None if h.cpu_used_ns is None else seconds(h.cpu_used_ns)),
        meaning="Of everything in its cgroup, GPU or not.",
        wrong_when="Absent where the cgroup cannot be read.",
    ),
    Metric(
        name="pressure_seconds_total",
        kind=Kind.COUNTER,
        labels=(*OWNER, "resource"),
        help="Time in which some task of the container was stalled, by resource.",
        samples=of.pressure,
        meaning="Pressure stall information of its cgroup, for `cpu`, `io` and `memory`. Input "
        "that comes too slowly shows as `io`.",
        wrong_when="Absent where Linux was built or started without PSI, and on cgroup v1.",
    ),
)
