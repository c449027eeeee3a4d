"""The rows of `top nodes`: one a GPU, the sum of its owners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpugauge.cli.top.rows import Row, gpu_name
from gpugauge.remote.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU, or one MIG instance. None: not known."""

    node: str
    gpu_uuid: str
    gpu: str
    model: str
    pods: int
    """Pods, containers and the host, as far as a live process of theirs is on it."""
    launches_per_second: float | None
    """None where it is not known of one of them."""
    launches_at_least: bool
    to_gpu_bytes_per_second: float | None
    to_host_bytes_per_second: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    findings: int | None


def gpu_rows(reading: Reading, rows: Iterable[Row]) -> list[GpuRow]:
    """Return the GPUs of one node, with the sums of the rows on them."""
    on: dict[str, list[Row]] = {}
    for row in rows:
        on.setdefault(row.gpu_uuid, []).append(row)
    found = reading.findings
    made = []
    for device in reading.snapshot.devices:
        here = on.get(device.uuid, [])
        made.append(
            GpuRow(
                node=reading.snapshot.node,
                gpu_uuid=device.uuid,
                gpu=gpu_name(device.index, device.mig_profile),
                model=device.model,
                pods=max((row.sharers or 0 for row in here), default=0),
                launches_per_second=_sum(row.launches_per_second for row in here),
                launches_at_least=any(row.launches_at_least for row in here),
                to_gpu_bytes_per_second=_sum(row.to_gpu_bytes_per_second for row in here),
                to_host_bytes_per_second=_sum(row.to_host_bytes_per_second for row in here),
                memory_used_bytes=device.memory_used_bytes,
                memory_total_bytes=device.memory_total_bytes,
                findings=None
                if found is None
                else sum(finding.gpu_uuid == device.uuid for finding in found),
            )
        )
    return made


def _sum(numbers: Iterable[float | None]) -> float | None:
    total = 0.0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
