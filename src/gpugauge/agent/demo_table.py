"""What the demo shows: a line a workload and second, and the comparison at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpugauge.model.abi import Slot
from gpugauge.model.process import Process
from gpugauge.model.snapshot import Snapshot
from gpugauge.units import NS_PER_SECOND, bytes_text

HEADER = (
    f"{'workload':<11}{'launches/s':>11}{'host waits':>12}{'GPU waits':>11}"
    f"{'to GPU/s':>12}{'to host/s':>12}{'on GPU':>8}"
)
SLOTS = {
    "launches": (Slot.LAUNCH,),
    "syncs": (Slot.SYNCHRONIZE,),
    "copies": (Slot.COPY_HTOD, Slot.COPY_DTOH, Slot.COPY_DTOD, Slot.COPY_UNKNOWN),
}
SYMBOLS = {
    "launches": ("cuLaunchKernel", "cuLaunchKernelEx"),
    "syncs": (
        "cuStreamSynchronize",
        "cuCtxSynchronize",
        "cuCtxSynchronize_v2",
        "cuEventSynchronize",
    ),
    "copies": (
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
    ),
}


def calls(process: Process | None, slots: tuple[Slot, ...]) -> int:
    """Return the calls of some slots, on all devices."""
    if process is None:
        return 0
    return sum(
        device.operations[slot].calls
        for device in process.devices
        for slot in slots
        if slot in device.operations
    )


def _bytes(process: Process | None, slot: Slot) -> int:
    if process is None:
        return 0
    return sum(d.operations[slot].bytes for d in process.devices if slot in d.operations)


def _idle_ns(process: Process | None) -> int | None:
    if process is None:
        return 0
    known = [d.known_idle_ns for d in process.devices]
    return None if any(each is None for each in known) else sum(each or 0 for each in known)


def table(before: Snapshot, now: Snapshot, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the table of one second."""
    seconds = now.interval_ns / NS_PER_SECOND
    old = {process.pid: process for process in before.processes}
    rows = [p for p in now.processes if p.pid in names]
    if not rows or seconds <= 0:
        return
    yield ""
    yield HEADER
    for process in rows:
        was = old.get(process.pid)
        launches = calls(process, (Slot.LAUNCH,)) - calls(was, (Slot.LAUNCH,))
        waits = process.blocked_wall_ns - (was.blocked_wall_ns if was else 0)
        idle, idle_was = _idle_ns(process), _idle_ns(was)
        gpu_waits = "unknown"
        if idle is not None:
            gpu_waits = f"{min(1.0, (idle - (idle_was or 0)) / now.interval_ns):.0%}"
        shares = {
            use.gpu_uuid: use.processes_active for use in now.device_use if use.processes_active
        }
        sharing = max((shares.get(d.gpu_uuid, 0) for d in process.devices), default=0)
        to_gpu = _bytes(process, Slot.COPY_HTOD) - _bytes(was, Slot.COPY_HTOD)
        to_host = _bytes(process, Slot.COPY_DTOH) - _bytes(was, Slot.COPY_DTOH)
        yield (
            f"{names[process.pid]:<11}{launches / seconds:>11,.0f}"
            f"{min(1.0, waits / now.interval_ns):>12.0%}{gpu_waits:>11}"
            f"{bytes_text(to_gpu / seconds):>12}{bytes_text(to_host / seconds):>12}"
            f"{sharing or 'unknown':>8}"
        )


def compare(
    seen: Mapping[int, Snapshot], reports: Mapping[int, tuple[str, Mapping[str, int]]]
) -> tuple[list[str], bool]:
    """Return lines that hold gpugauge's counts against the workloads' own, and whether all agree.

    Args:
        seen: The last snapshot in which each process was.
        reports: By pid, the workload's name and its own counts by symbol.
    """
    lines = [f"{'workload':<11}{'':<10}{'gpugauge':>12}{'its own':>12}"]
    same = True
    for pid, (name, counts) in reports.items():
        snapshot = seen.get(pid)
        process = next((p for p in snapshot.processes if p.pid == pid), None) if snapshot else None
        for what, slots in SLOTS.items():
            ours = calls(process, slots)
            own = sum(counts.get(symbol, 0) for symbol in SYMBOLS[what])
            same &= ours == own
            mark = "" if ours == own else "   DIFFERENT"
            lines.append(f"{name:<11}{what:<10}{ours:>12,}{own:>12,}{mark}")
    return lines, same
