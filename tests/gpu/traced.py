"""A program that is traced: its marks, and what the agent counted between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from gpugauge.model.abi import Cause, Slot
from gpugauge.model.process import Operation, Process
from gpugauge.model.snapshot import Snapshot
from tests.gpu.agent import AgentProcess

NONE = Operation()


@dataclass(frozen=True)
class Between:
    """What the agent counted of one process between two snapshots."""

    pid: int
    before: Snapshot
    after: Snapshot
    told: dict[str, Any]
    """What the program said of its section."""

    @property
    def interval_ns(self) -> int:
        """Time between the snapshots."""
        return self.after.time_monotonic_ns - self.before.time_monotonic_ns

    def process(self, snapshot: Snapshot) -> Process | None:
        """Return the process in a snapshot."""
        return next((p for p in snapshot.processes if p.pid == self.pid), None)

    def rise(self, slot: Slot, what: str = "calls") -> int:
        """Return how much a counter rose."""
        return self._sum(self.after, slot, what) - self._sum(self.before, slot, what)

    def blocked_ns(self, cause: Cause) -> int:
        """Return how much blocked time rose."""

        def total(snapshot: Snapshot) -> int:
            process = self.process(snapshot)
            return sum(d.blocked_ns[cause] for d in process.devices) if process else 0

        return total(self.after) - total(self.before)

    def value(self, name: str) -> int:
        """Return how much a number of the process's devices rose."""

        def total(snapshot: Snapshot) -> int:
            process = self.process(snapshot)
            return sum(getattr(d, name) or 0 for d in process.devices) if process else 0

        return total(self.after) - total(self.before)

    def _sum(self, snapshot: Snapshot, slot: Slot, what: str) -> int:
        process = self.process(snapshot)
        if process is None:
            return 0
        return sum(getattr(d.operations.get(slot, NONE), what) for d in process.devices)


def run(
    agent: AgentProcess | None, module: str, *arguments: str, timeout_s: float = 120
) -> Between:
    """Run a program with marks, beside an agent; without one, only its own words count."""
    trouble = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed below, after the child
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments, "--marked"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=trouble, text=True,
        env=dict(os.environ),
    )  # fmt: skip
    assert child.stdin and child.stdout
    snapshots: list[Snapshot] = []
    told: dict[str, Any] = {}
    for line in child.stdout:
        if not line.startswith('{"mark"'):
            continue
        told = json.loads(line)
        if agent is not None:
            snapshots.append(agent.wait_ticks(3))
        child.stdin.write("\n")
        child.stdin.flush()
    code = child.wait(timeout=timeout_s)
    trouble.seek(0)
    errors = trouble.read()
    trouble.close()
    if code:
        raise RuntimeError(f"{module} {arguments} failed:\n{errors[-2000:]}")
    if agent is None:
        return Between(child.pid, None, None, told)  # type: ignore[arg-type]
    return Between(child.pid, snapshots[0], snapshots[-1], told)
