"""Counts: those of the agent beside those of the program or of a profiler in a run apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from gpugauge.model.abi import Loss, Slot
from tests.gpu.agent import AgentProcess
from tests.gpu.rows import Row
from tests.gpu.traced import run

TORCH = "tests.gpu.programs.torch_loops"
OTHER = "tests.gpu.programs.other_loops"
COMPARED = {
    "kernels": (Slot.LAUNCH, "calls", "launches"),
    "graph launches": (Slot.GRAPH_LAUNCH, "calls", "graph launches"),
    "syncs": (Slot.SYNCHRONIZE, "calls", "synchronizations"),
    "HtoD copies": (Slot.COPY_HTOD, "calls", "copies to the device"),
    "HtoD bytes": (Slot.COPY_HTOD, "bytes", "bytes to the device"),
    "DtoH copies": (Slot.COPY_DTOH, "calls", "copies to the host"),
    "DtoH bytes": (Slot.COPY_DTOH, "bytes", "bytes to the host"),
    "DtoD copies": (Slot.COPY_DTOD, "calls", "copies on the device"),
    "sets": (Slot.SET, "calls", "sets"),
}
SYMBOLS = {
    Slot.LAUNCH: ("cuLaunchKernel", "cuLaunchKernelEx"),
    Slot.GRAPH_LAUNCH: ("cuGraphLaunch",),
    Slot.SYNCHRONIZE: (
        "cuStreamSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2", "cuEventSynchronize",
    ),
    Slot.COPY_HTOD: ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoD_v2"),
    Slot.COPY_DTOH: ("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoH_v2"),
}  # fmt: skip


def torch_rows(agent: AgentProcess) -> Iterator[Row]:
    """PyTorch programs: the profiler counts in a run of its own, beside no agent's."""
    for name in ("training", "inference", "graph"):
        profiled = run(None, TORCH, name, "--profile").told["counts"]
        traced = run(agent, TORCH, name)
        for counted, (slot, what, title) in COMPARED.items():
            truth = profiled.get(counted, 0)
            if name == "graph" and counted == "kernels":
                # The profiler sees each node as a kernel; they are no launches of the program.
                yield Row.equal(f"PyTorch {name}", "kernels by graph replay",
                                truth, traced.value("graph_launch_nodes"))  # fmt: skip
                continue
            if truth or traced.rise(slot, what):
                yield Row.equal(f"PyTorch {name}", title, truth, traced.rise(slot, what))
        yield uuid_row(f"PyTorch {name}", traced.process(traced.after))


def other_rows(agent: AgentProcess) -> Iterator[Row]:
    """JAX, CuPy, Triton: the program counts itself."""
    for name in ("jax", "cupy", "triton"):
        traced = run(agent, OTHER, name)
        for counted, truth in traced.told["counts"].items():
            slot, what, title = COMPARED[counted]
            yield Row.equal(name, title, truth, traced.rise(slot, what))


def driver_rows(agent: AgentProcess) -> Iterator[Row]:
    """Programs of our own on the driver API, with PTX of their own: every call from the first."""
    for module, flags in (
        ("training", ("--steps=211", "--launch-us=20")),
        ("graphs", ()),
        ("events", ()),
        ("threads", ()),
        ("short_lived", ()),
    ):
        done = subprocess.run(
            [sys.executable, "-m", f"sim.workloads.{module}", *flags],
            capture_output=True, text=True, env=dict(os.environ), timeout=100, check=False,
        )  # fmt: skip
        reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not reports:
            yield Row(f"driver API {module}", "ran", "exit 0", done.stderr.strip()[-200:], False)
            continue
        agent.wait_ticks(3)
        for report in reports:
            process = agent.last.get(report["pid"])
            for slot, symbols in SYMBOLS.items():
                names = [name for symbol in symbols for name in (symbol, f"{symbol}_ptsz")]
                truth = sum(report["counts"].get(name, 0) for name in names)
                found = 0
                if process is not None:
                    found = sum(d.operations[slot].calls for d in process.devices
                                if slot in d.operations)  # fmt: skip
                    if slot is not Slot.GRAPH_LAUNCH:
                        found += _captured(process, slot, report)
                if truth:
                    yield Row.equal(f"driver API {module}", slot.name.lower(), truth, found)


def _captured(process: object, slot: Slot, report: dict[str, object]) -> int:
    """Launches recorded into a graph are counted apart, as captured; the program counts calls."""
    if slot is not Slot.LAUNCH:
        return 0
    return sum(
        d.operations[Slot.CAPTURED].calls
        for d in process.devices  # type: ignore[attr-defined]
        if Slot.CAPTURED in d.operations
    )


def uuid_row(program: str, process: object) -> Row:
    """The device a process is on, against nvidia-smi."""
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    found = {d.gpu_uuid for d in process.devices} if process else set()  # type: ignore[attr-defined]
    return Row(program, "device", listed[0], ", ".join(sorted(found)), found == {listed[0]})


def probe_rows(agent: AgentProcess) -> Iterator[Row]:
    """What the agent says of itself."""
    health = agent.wait_ticks(1).agent
    # An event that was not sent loses no count: what it says is in the maps.
    lost = {
        loss.name.lower(): count
        for loss, count in health.losses.items()
        if count and loss is not Loss.RING_LIMITED
    }
    yield Row("agent", "probes", "all legal", str(dict(health.probes)),
              not health.probes.get("refused") and not health.probes.get("failed"))  # fmt: skip
    yield Row("agent", "lost", "nothing", str(lost or "nothing"), not lost)
    yield Row("agent", "probe cost, ns", "", f"{health.probe_cost_ns:.0f}", True)
    yield Row("agent", "tick, ms", "", f"{health.tick_ns / 1e6:.1f}", True)
    yield Row("agent", "RSS, MiB", "80", f"{health.rss_bytes / 2**20:.0f}",
              health.rss_bytes < 80 * 2**20)  # fmt: skip
    yield Row("agent", "BPF maps, MiB", "32", f"{health.bpf_memory_bytes / 2**20:.1f}",
              health.bpf_memory_bytes < 32 * 2**20)  # fmt: skip
