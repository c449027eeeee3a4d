"""A simulated machine for a test: a folder with the library, its state, and what runs on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim import build
from sim.control import Control, create, environment
from sim.oracle import Oracle


class Machine:
    """Starts programs on the simulated driver and knows what they really did."""

    def __init__(self, folder: Path, shape: str = "push", **config: int) -> None:
        self.library = build.cached(shape)
        self.state = folder / "state"
        self.control: Control = create(self.state, self.library, **config)
        self.oracle = Oracle(self.state)

    def close(self) -> None:
        """Unmap the state; its files stay in the folder."""
        self.control.close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process on this machine."""
        return environment(self.state, self.library)

    def start(
        self, arguments: list[str], *, extra: dict[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        """Start a program; its output is piped, as text."""
        return subprocess.Popen(
            arguments,
            env=self.environment | (extra or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(
        self, arguments: list[str], *, extra: dict[str, str] | None = None, timeout_s: float = 60
    ) -> list[dict[str, Any]]:
        """Run a program to its end and return the JSON lines it printed.

        Raises:
            RuntimeError: it failed; with its standard error.
        """
        with self.start(arguments, extra=extra) as child:
            try:
                out, err = child.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
        if child.returncode:
            raise RuntimeError(f"{arguments} ended with {child.returncode}:\n{err[-4000:]}")
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def workload(self, name: str, **numbers: int) -> list[dict[str, Any]]:
        """Run one of sim.workloads and return what it reported."""
        return self.run(workload_command(name, **numbers))

    def script(self, text: str, **more: Any) -> list[dict[str, Any]]:
        """Run Python text."""
        return self.run([sys.executable, "-c", text], **more)

    def hammer(
        self, functions: str, calls: int, *, threads: int = 1, processes: int = 1
    ) -> list[dict[str, Any]]:
        """Run the hammer: calls by each thread of each process."""
        program = str(self.library.parent / "hammer")
        numbers = [str(number) for number in (calls, threads, processes)]
        return self.run([program, str(self.library), functions, *numbers])


def workload_command(name: str, **numbers: int) -> list[str]:
    """Return the command of a workload."""
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in numbers.items()]
    return [sys.executable, "-m", f"sim.workloads.{name}", *flags]


@contextmanager
def machine(folder: Path, shape: str = "push", **config: int) -> Iterator[Machine]:
    """Yield a simulated machine whose files are in a folder."""
    made = Machine(folder, shape, **config)
    try:
        yield made
    finally:
        made.close()
