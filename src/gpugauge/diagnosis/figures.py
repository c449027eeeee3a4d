"""One window of a workload as rates, shares and ratios: what rules compare.

A *unit of work* is one function launched on the GPU: a launch, a node of a known graph,
or a whole graph whose content is unknown. Ratios by unit of work survive a workload that
slows down; rates do not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from gpugauge.diagnosis import columns as c

Optional = float | None
LEAST_INPUT_BYTES = 64.0
"""Copied to the GPU by unit of work."""


@dataclass(slots=True, kw_only=True)
class Figures:
    """A window, or the medians of many. None: not known. Shares are by process-second."""

    work_per_second: float
    launches_per_second: float
    graphs_per_second: float
    processes: float
    syncs_per_work: float
    dtoh_copies_per_work: float
    htod_copies_per_work: float
    dtoh_bytes_per_work: float
    htod_bytes_per_work: float
    dtoh_bytes_per_second: float
    htod_bytes_per_second: float
    threads_per_launch: Optional
    allocations_per_second: float
    allocation_ratio: float
    errors_per_second: float
    blocked_synchronize_ratio: float
    blocked_copy_ratio: float
    blocked_queue_ratio: float
    blocked_allocation_ratio: float
    blocked_ratio: float
    wait_per_sync_seconds: Optional
    wait_per_work_seconds: Optional
    idle_ratio: Optional
    issue_seconds: Optional
    cpu_cores: Optional
    cpu_per_work_seconds: Optional
    throttled_ratio: Optional
    pressure_cpu_ratio: Optional
    pressure_io_ratio: Optional
    pressure_memory_ratio: Optional
    quota_cores: Optional
    unobserved_ratio: Optional
    others_busy_ratio: float = 0.0
    """Others' time with work on the device, per second: 1 is one other busy process."""
    others_unseen: float = 0.0
    """Processes on the device by NVML whose calls are not seen."""

    @property
    def waits_ratio(self) -> float:
        """Blocked in synchronizations and copies."""
        return self.blocked_synchronize_ratio + self.blocked_copy_ratio

    @property
    def threads_per_input_byte(self) -> Optional:
        """GPU threads by byte copied in: what is done with a batch, in however many launches.

        None where next to nothing is copied.
        """
        if self.threads_per_launch is None or self.htod_bytes_per_work < LEAST_INPUT_BYTES:
            return None
        return self.threads_per_launch / self.htod_bytes_per_work

    @property
    def busy_ratio(self) -> float:
        """Share of time in which it may have had work on the device: an upper bound."""
        if self.work_per_second + self.htod_bytes_per_second + self.blocked_ratio == 0:
            return 0.0
        if self.idle_ratio is None:
            return min(1.0, max(0.5, self.blocked_ratio))
        return max(0.0, 1.0 - self.idle_ratio)


NAMES = tuple(field.name for field in fields(Figures))


def figures(row: list[float], host: list[float] | None) -> Figures:
    """Return the figures of a window on a device, with the CPU side of its owner."""
    seconds, process_seconds = row[c.SECONDS], row[c.PROCESS_SECONDS]
    launches, syncs = row[c.LAUNCHES], row[c.SYNCS]
    work = launches + row[c.GRAPH_NODES] + row[c.GRAPHS_UNKNOWN]
    blocked = sum(row[column] for column in c.BLOCKED)
    per_work = 1.0 / work if work else 0.0
    h = host or [0.0] * c.HOST_WIDTH
    cpu = _known(h, c.CPU_USED, c.CPU_KNOWN)
    return Figures(
        work_per_second=work / seconds,
        launches_per_second=launches / seconds,
        graphs_per_second=row[c.GRAPH_LAUNCHES] / seconds,
        processes=process_seconds / seconds,
        syncs_per_work=syncs * per_work,
        dtoh_copies_per_work=row[c.DTOH_CALLS] * per_work,
        htod_copies_per_work=row[c.HTOD_CALLS] * per_work,
        dtoh_bytes_per_work=row[c.DTOH_BYTES] * per_work,
        htod_bytes_per_work=row[c.HTOD_BYTES] * per_work,
        dtoh_bytes_per_second=row[c.DTOH_BYTES] / seconds,
        htod_bytes_per_second=row[c.HTOD_BYTES] / seconds,
        threads_per_launch=row[c.THREADS] / launches if launches and row[c.THREADS] else None,
        allocations_per_second=row[c.ALLOCATIONS] / seconds,
        allocation_ratio=row[c.ALLOCATION_TIME] / process_seconds,
        errors_per_second=row[c.ERRORS] / seconds,
        blocked_synchronize_ratio=row[c.BLOCKED_SYNCHRONIZE] / process_seconds,
        blocked_copy_ratio=row[c.BLOCKED_COPY] / process_seconds,
        blocked_queue_ratio=row[c.BLOCKED_LAUNCH_QUEUE] / process_seconds,
        blocked_allocation_ratio=row[c.BLOCKED_ALLOCATION] / process_seconds,
        blocked_ratio=blocked / process_seconds,
        wait_per_sync_seconds=row[c.BLOCKED_SYNCHRONIZE] / syncs if syncs else None,
        wait_per_work_seconds=blocked / work if work else None,
        idle_ratio=row[c.IDLE] / row[c.IDLE_KNOWN]
        if row[c.IDLE_KNOWN] > 0.8 * process_seconds
        else None,
        issue_seconds=row[c.ISSUE] or None,
        cpu_cores=cpu,
        cpu_per_work_seconds=None if cpu is None or not work else cpu * seconds / work,
        throttled_ratio=_known(h, c.THROTTLED, c.THROTTLED_KNOWN),
        pressure_cpu_ratio=_known(h, c.PRESSURE_CPU, c.PRESSURE_KNOWN),
        pressure_io_ratio=_known(h, c.PRESSURE_IO, c.PRESSURE_KNOWN),
        pressure_memory_ratio=_known(h, c.PRESSURE_MEMORY, c.PRESSURE_KNOWN),
        quota_cores=h[c.QUOTA] or None,
        unobserved_ratio=h[c.UNOBSERVED] / h[c.OBSERVED] if h[c.OBSERVED] > 0 else None,
    )


def medians(many: list[Figures]) -> Figures:
    """Return the median of each figure over windows; None where it is never known."""
    made: dict[str, Any] = {}
    for name in NAMES:
        values = [value for each in many if (value := getattr(each, name)) is not None]
        made[name] = median(values) if values else None
    return Figures(**made)


def _known(host: list[float], column: int, known: int) -> Optional:
    return host[column] / host[known] if host[known] > 0.5 * host[c.HOST_SECONDS] > 0 else None
