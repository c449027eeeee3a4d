"""Transfers: what crosses the bus."""

from __future__ import annotations

from gpugauge.export import samples as of
from gpugauge.export.metric import WORKLOAD, Kind, Metric
from gpugauge.export.metrics.caveats import SEEN
from gpugauge.model.abi import Slot

METRICS: tuple[Metric, ...] = (
    Metric(
        name="copies_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "direction"),
        help="Copies, by direction.",
        samples=of.copies(lambda operation: operation.calls),
        meaning="`htod` is host to device, `dtoh` back, `dtod` within a device, `peer` between "
        "devices, `unknown` where the call does not say. A direction appears once it is used.",
        wrong_when="Unified addresses hide the direction. Copies inside graphs are not counted.",
    ),
    Metric(
        name="copy_bytes_total",
        kind=Kind.COUNTER,
        labels=(*WORKLOAD, "direction"),
        help="Bytes submitted for copying, by direction.",
        samples=of.copies(lambda operation: operation.bytes),
        meaning="Counted when the copy is submitted, not when it is done. Divided by "
        "`gpugauge_copies_total` it is the mean size: many small ones waste the bus.",
        wrong_when="Batched three-dimensional copies count without bytes. Managed memory moves "
        "without any call.",
    ),
    Metric(
        name="sets_total",
        kind=Kind.COUNTER,
        labels=WORKLOAD,
        help="Calls that fill device memory with a value.",
        samples=of.calls(Slot.SET),
        meaning="They occupy the GPU and are submissions like launches.",
        wrong_when=SEEN,
    ),
)
