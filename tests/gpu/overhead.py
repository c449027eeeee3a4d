"""What the probes cost real programs: windows with and without them, in turn.

The agent's off switch (SIGUSR1, SIGUSR2) takes every probe off and puts it back.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.gpu.agent import AgentProcess
from tests.gpu.rows import Row

PAIRS = 10
SETTLE_SECONDS = 0.4
LIMITS = {"transformer": 0.005, "graph": 0.005, "eager": 0.02}


def overhead_rows(agent: AgentProcess) -> Iterator[Row]:
    """Median of the ratio pair by pair; the order within a pair alternates."""
    for name, limit in LIMITS.items():
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.programs.torch_windows", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ),
        )  # fmt: skip
        assert child.stdin and child.stdout
        child.stdout.readline()
        times: dict[bool, list[float]] = {True: [], False: []}
        for pair in range(PAIRS):
            for probed in (True, False) if pair % 2 else (False, True):
                agent.process.send_signal(signal.SIGUSR2 if probed else signal.SIGUSR1)
                time.sleep(SETTLE_SECONDS)
                child.stdin.write("\n")
                child.stdin.flush()
                times[probed].append(float(child.stdout.readline()))
        child.stdin.close()
        child.wait(timeout=30)
        agent.process.send_signal(signal.SIGUSR2)
        ratios = [on / off - 1 for on, off in zip(times[True], times[False], strict=True)]
        middle = statistics.median(ratios)
        spread = f"{min(ratios):+.1%} to {max(ratios):+.1%}"
        step = f"{statistics.median(times[False]):.3f} ms"
        yield Row(f"PyTorch {name}, {step} a step", f"slower with probes, {PAIRS} pairs",
                  f"at most {limit:.1%}", f"{middle:+.2%} ({spread})", middle <= limit)  # fmt: skip
