"""Where the incidents run: PyTorch on a real GPU, or stand-ins on the simulated driver."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Protocol

from sim.machine import Machine

Changes = dict[str, float]


STAND_INS: dict[str, tuple[Changes, dict[str, Changes]]] = {
    # kind: (how it begins, what each word means to it)
    "logged": ({"device": 0, "drain": 0, "launches": 20, "launch_us": 900, "reads": 1}, {
        "log=1": {"reads": 10, "read_bytes": 4 << 20}, "log=0": {"reads": 1}}),
    "normed": ({"device": 1, "launches": 200, "launch_us": 10},
               {"norms=1": {"reads": 199, "read_bytes": 4}, "norms=0": {"reads": 0}}),
    "starved": ({"device": 2, "cpu_ms": 12, "rest_ms": 0, "launches": 10}, {}),
    "healthy": ({"device": 3}, {
        "evaluate=1": {"launches": 20, "reads": 1}, "evaluate=0": {"launches": 40, "reads": 0},
        "checkpoint=1": {"reads": 8, "read_bytes": 60 << 20}, "checkpoint=0": {"reads": 0}}),
    "victim": ({"device": 4}, {}),
    "batch": ({"device": 4, "pause": 1, "launches": 100, "launch_us": 4000},
              {"work=1": {"pause": 0}}),
    "tiny": ({"device": 5, "launches": 4000, "launch_us": 2, "rest_ms": 0, "drain": 0}, {}),
    "pageable": ({"device": 6, "launches": 10, "pageable": 1, "batch_bytes": 60 << 20}, {}),
    "hang": ({"device": 7, "hang": 1}, {}),
    "idle": ({"device": 7, "pause": 1}, {}),
}  # fmt: skip


class Place(Protocol):
    """What the run asks of a machine."""

    flags: tuple[str, ...]
    """Of the agent."""
    environment: dict[str, str]

    def command(self, kind: str) -> list[str]:
        """Return how a program of this kind is started."""
        ...

    def changes(self, kind: str, changes: Changes) -> Changes:
        """Return what to tell a program so that it changes in this way."""
        ...

    def close(self) -> None:
        """Give back what was taken."""
        ...


class RealGpu:
    """PyTorch programs on the GPU of this machine."""

    flags: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.environment = dict(os.environ)

    def command(self, kind: str) -> list[str]:
        """Return how a PyTorch program is started."""
        return [sys.executable, "-m", "tests.gpu.programs.torch_steps", kind]

    def changes(self, kind: str, changes: Changes) -> Changes:
        """Return the same: its programs know these words."""
        return changes

    def close(self) -> None:
        """Nothing was taken."""


class Simulated:
    """Programs of `sim.workloads.changing`, each on a device of its own but the batch job."""

    def __init__(self, folder: Path) -> None:
        self._machine = Machine(folder, device_count=8)
        self._machine.control.hang("cuCtxSynchronize_v2")
        self.environment = self._machine.environment
        self.flags = (
            f"--attach-libraries={self._machine.library}",
            "--diagnosis-launch-bound-launches-per-second=1000",
        )

    def command(self, kind: str) -> list[str]:
        """Return how the stand-in is started."""
        begins = STAND_INS[kind][0]
        return [
            sys.executable,
            "-m",
            "sim.workloads.changing",
            *(f"{name}={value}" for name, value in begins.items()),
        ]

    def changes(self, kind: str, changes: Changes) -> Changes:
        """Return what the stand-in is told."""
        told: dict[str, Any] = {}
        for name, value in changes.items():
            told |= STAND_INS[kind][1].get(f"{name}={value:.0f}", {})
        return told

    def close(self) -> None:
        """Unmap its state."""
        self._machine.close()
