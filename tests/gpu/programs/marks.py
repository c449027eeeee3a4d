"""A section of a program that is measured: told to the validation, and profiled in a run apart.

The program stops before and after the section until it reads a line, so that
the agent's snapshots can be taken while nothing happens.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROFILE = "--profile" in sys.argv
MARKED = "--marked" in sys.argv

LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
)
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
POLLS = ("cudaStreamQuery", "cudaEventQuery")


def tell(word: str, **values: Any) -> None:
    """Tell the validation, and wait until it answers."""
    print(json.dumps({"mark": word, "pid": os.getpid(), **values}), flush=True)
    if MARKED:
        sys.stdin.readline()


class Section:
    """What is known of a section when it is over."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.values: dict[str, Any] = {}


@contextmanager
def section() -> Iterator[Section]:
    """Measure what is inside; with --profile by PyTorch's profiler too."""
    made = Section()
    tell("begin")
    began = time.monotonic_ns()
    if PROFILE:
        with _profiled(made):
            yield made
    else:
        yield made
    made.values["wall_ns"] = time.monotonic_ns() - began
    tell("end", counts=dict(made.counts), **made.values)


@contextmanager
def _profiled(made: Section) -> Iterator[None]:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        with record_function("gpugauge-section"):
            yield
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        read_trace(json.loads(path.read_text())["traceEvents"], made)


def read_trace(events: list[dict[str, Any]], made: Section) -> None:
    """Count calls, GPU work and busy time of the section from a profiler's trace."""
    spans = [e for e in events if e.get("name") == "gpugauge-section" and e.get("ph") == "X"]
    start = min(e["ts"] for e in spans if e.get("cat") == "user_annotation")
    stop = max(e["ts"] + e["dur"] for e in spans if e.get("cat") == "user_annotation")
    inside: set[int] = set()
    counts: Counter[str] = Counter()
    for event in events:
        if event.get("cat") not in ("cuda_runtime", "cuda_driver") or "dur" not in event:
            continue
        if not start <= event["ts"] <= stop:
            continue
        name = event["name"]
        inside.add(event["args"]["correlation"])
        counts["launch calls"] += name in LAUNCHES
        counts["graph launches"] += name in ("cudaGraphLaunch", "cuGraphLaunch")
        counts["syncs"] += name in WAITS
        counts["polls"] += name in POLLS
    busy: list[tuple[float, float]] = []
    for event in events:
        category = event.get("cat")
        if category not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        busy.append((event["ts"], event["ts"] + event["dur"]))
        if event["args"].get("correlation") not in inside:
            continue
        if category == "kernel":
            counts["kernels"] += 1
        elif category == "gpu_memset":
            counts["sets"] += 1
        else:
            way = event["name"].split()[1]
            counts[f"{way} copies"] += 1
            counts[f"{way} bytes"] += int(event["args"].get("bytes", 0))
    made.counts.update(counts)
    made.values["busy_ns"] = int(union(busy) * 1000)


def union(spans: list[tuple[float, float]]) -> float:
    """Return the time covered by at least one span."""
    total, until = 0.0, float("-inf")
    for start, stop in sorted(spans):
        if stop > until:
            total += stop - max(start, until)
            until = stop
    return total
