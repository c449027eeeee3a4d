"""What the whole agent uses, idle and while two cores call as fast as they can. See README.md.

Usage: python -m benchmarks.agent_cost
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.linux.agents import AgentProcess, agent
from tests.linux.tracing import OwnMachine

MIB = 1 << 20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TARGET_RSS_BYTES = 80 * MIB
CALLS = "cuLaunchKernel,cuStreamSynchronize,cuMemcpyHtoDAsync_v2"


@dataclass(frozen=True)
class Use:
    """What the agent used over a time."""

    percent_of_core: float
    rss_bytes: int
    calls_per_second: float


def cpu_seconds(pid: int) -> float:
    """Return CPU time of a process, all threads, user and system (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    """Return resident memory of a process."""
    text = Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * PAGE_BYTES


def over(it: AgentProcess, machine: OwnMachine, seconds: float) -> Use:
    """Return what the agent uses over some seconds, scraped once."""
    pid = it.child.pid
    calls, cpu, began = machine.oracle.calls().total(), cpu_seconds(pid), time.monotonic()
    time.sleep(seconds / 2)
    it.get("/metrics")
    time.sleep(seconds / 2)
    took = time.monotonic() - began
    done = machine.oracle.calls().total() - calls
    return Use((cpu_seconds(pid) - cpu) / took * 100, rss_bytes(pid), done / took)


def hammer(machine: OwnMachine, threads: int, processes: int) -> subprocess.Popen[str]:
    """Start callers that go on until they are killed."""
    program = str(machine.library.parent / "hammer")
    numbers = ("100000000000", str(threads), str(processes))
    return machine.start([program, str(machine.library), CALLS, *numbers], start_new_session=True)


def main(arguments: list[str] | None = None) -> int:
    """Print a table; the exit code is 1 when the agent's memory misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--mode", default="auto")
    given = parser.parse_args(arguments)
    worst = 0
    print("load                            calls/s   agent CPU, % of a core   RSS, MiB")
    with tempfile.TemporaryDirectory() as folder:
        machine = OwnMachine(Path(folder), instant=1)
        with agent(Path(folder), machine, "--attach-mode", given.mode) as it:
            time.sleep(3)
            worst = max(worst, show("idle", over(it, machine, given.seconds)))
            for threads, processes in ((1, 2), (8, 4), (32, 16)):
                load = hammer(machine, threads, processes)
                try:
                    time.sleep(2)
                    name = f"{processes} processes x {threads} threads"
                    worst = max(worst, show(name, over(it, machine, given.seconds)))
                finally:
                    os.killpg(load.pid, 9)
                    load.communicate()
            time.sleep(2)
            worst = max(worst, show("idle again", over(it, machine, given.seconds)))
    return int(worst > TARGET_RSS_BYTES)


def show(name: str, use: Use) -> int:
    """Print a row; return the resident memory."""
    print(
        f"{name:28} {use.calls_per_second:10,.0f} {use.percent_of_core:24.2f}"
        f" {use.rss_bytes / MIB:10.1f}",
        flush=True,
    )
    return use.rss_bytes


if __name__ == "__main__":
    sys.exit(main())
