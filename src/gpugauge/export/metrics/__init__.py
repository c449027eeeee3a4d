"""The metrics: one row each. docs/metrics.md and the exposition are written from this table.

To add one, add a row to the file of its subject; `make generate` renews the document and the
golden file.
"""

from __future__ import annotations

from gpugauge.export.metric import Metric
from gpugauge.export.metrics import (
    agent,
    back_pressure,
    cluster,
    contention,
    demand,
    diagnosis,
    durations,
    errors,
    host,
    memory,
    time_split,
    transfers,
)

METRICS: tuple[Metric, ...] = (
    *demand.METRICS,
    *back_pressure.METRICS,
    *time_split.METRICS,
    *transfers.METRICS,
    *memory.METRICS,
    *errors.METRICS,
    *durations.METRICS,
    *contention.METRICS,
    *host.METRICS,
    *diagnosis.METRICS,
    *agent.METRICS,
    *cluster.METRICS,
)
"""In the order of the document and of the exposition: what is dropped first when a node has too
many series stands last among the workload's."""
