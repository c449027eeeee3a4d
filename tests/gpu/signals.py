"""Signals: who waits for whom, against the profiler's timeline and the program's own clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from gpugauge.model.abi import Cause
from tests.gpu.agent import AgentProcess
from tests.gpu.counts import TORCH
from tests.gpu.rows import Row
from tests.gpu.traced import run

POINTS = 0.15
IDLE_ABOVE = 0.02


def queue_rows(agent: AgentProcess) -> Iterator[Row]:
    """Blocked share by the launch queue against (wall - issue time) / wall."""
    for threads in (1, 2):
        for length_us in (5, 10, 20, 40, 80, 200):
            traced = run(agent, TORCH, "queue", str(length_us), str(threads))
            told = traced.told
            wall = told["loop_ns"] * threads
            truth = max(0.0, (wall - told["launched"] * told["issue_ns"]) / wall)
            found = traced.blocked_ns(Cause.LAUNCH_QUEUE) / wall
            name = f"_sleep {length_us} us, {threads} thread{'s' if threads > 1 else ''}"
            yield Row.within(name, "launch queue, share", truth, found, -POINTS, POINTS)


def idle_rows(agent: AgentProcess) -> Iterator[Row]:
    """Known idle against the interval less the profiler's busy time, in the same run."""
    for name in ("stalled", "sparse", "dense", "training"):
        traced = run(agent, TORCH, name, "--profile")
        interval = traced.interval_ns
        truth = (interval - traced.told["busy_ns"]) / interval
        found = traced.value("known_idle_ns") / interval
        yield Row.within(f"PyTorch {name}", "known idle, share (never above)",
                         truth, found, -1.0, IDLE_ABOVE)  # fmt: skip


def wait_rows(agent: AgentProcess) -> Iterator[Row]:
    """A pageable copy waits in the copy, not in the synchronization after it."""
    traced = run(agent, TORCH, "inference")
    copy, sync = traced.blocked_ns(Cause.COPY), traced.blocked_ns(Cause.SYNCHRONIZE)
    yield Row("PyTorch inference", "waits in the copy, ms (sync beside it)", "copy > sync",
              f"{copy / 1e6:.1f} ({sync / 1e6:.1f})", copy > sync)  # fmt: skip
    left = [
        t.observed_ns - t.host_waits_ns - t.gpu_waits_ns - t.overlapped_ns - t.unobserved_ns
        for t in traced.after.times
    ]
    yield Row.equal("all owners", "observed time less the four parts, ns", 0, sum(map(abs, left)))


def contention_rows(agent: AgentProcess) -> Iterator[Row]:
    """Two processes on one device."""

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-m", TORCH, "neighbour"], text=True,
                                stdout=subprocess.PIPE, env=dict(os.environ))  # fmt: skip

    children = [start(), start()]
    for child in children:
        assert child.stdout
        child.stdout.readline()
    time.sleep(3)
    use = [u for u in agent.wait_ticks(2).device_use if u.processes_with_context]
    found = [(u.processes_with_context, u.processes_active) for u in use]
    yield Row("two PyTorch processes", "with a context, active", "[(2, 2)]", str(found),
              found == [(2, 2)])  # fmt: skip
    for child in children:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=30)
