"""Incidents on the simulated driver, through real probes and a real agent.

Times are shorter than by default, so that an incident takes seconds; all else is as shipped.
What is waited for are states: that a program is known well enough to be compared, that a
cause is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpugauge.agent.demo_container import Container
from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.model.finding import Finding
from tests.linux.agents import AgentProcess
from tests.linux.tracing import OwnMachine

SHORT = {
    "tick-seconds": 0.25,
    "diagnosis-window-seconds": 2,
    "diagnosis-evaluate-seconds": 0.25,
    "diagnosis-confirm-seconds": 1,
    "diagnosis-clear-seconds": 2,
    "diagnosis-startup-seconds": 1,
    "diagnosis-quarantine-seconds": 1,
    "diagnosis-baseline-windows": 3,
    "diagnosis-hang-seconds": 3,
    "diagnosis-idle-holder-seconds": 4,
    "diagnosis-cpu-starvation-pause-seconds": 0,
}
SMALL: dict[str, float] = {
    # What a simulated GPU on a small machine reaches of these; on a busy one a launch is
    # interrupted, and that time counts as blocked.
    "diagnosis-launch-bound-launches-per-second": 1000,
    "diagnosis-launch-bound-blocked-ratio": 0.6,
    "diagnosis-held-above-requested-bytes": 1 << 29,
    "diagnosis-held-above-requested-ratio": 0.2,
}
PRICE = "--price-per-gpu-hour=Simulated GPU=3.5"
FLAGS = (*(f"--{name}={value}" for name, value in (SHORT | SMALL).items()), PRICE)
DEVICES = 24
PATIENCE_S = 90.0
"""For a state on a machine that does much else; it ends when the state is there."""
NOT_KNOWN = ("past their start", "to learn what is usual", "a whole window")


class Program:
    """A program on a device, and what is said of it."""

    def __init__(self, run: Run, child: subprocess.Popen[str], mark: str) -> None:
        self._run = run
        self._child = child
        self._mark = mark
        """How the agent calls it in what it lacked."""
        assert child.stdout is not None
        first = child.stdout.readline()
        assert first, child.communicate()[1]
        self.pids = [int(pid) for pid in first.split()]

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self.pids[0]

    def tell(self, **changes: float) -> None:
        """Change how its next steps are."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(changes) + "\n")
        self._child.stdin.flush()

    def wait_known(self) -> None:
        """Wait until the agent knows what is usual for it."""
        met = False

        def known() -> bool:
            nonlocal met
            lacked = [text for text in self._run.lacked() if self._mark in text]
            unknown = any(words in text for text in lacked for words in NOT_KNOWN)
            met |= unknown
            return met and not unknown

        self._run.until(known, "what is usual is learned")

    def wait_named(self, rule: str, *words: str) -> Finding:
        """Wait until a rule names it with these words, and return the finding."""
        found: list[Finding] = []

        def named() -> bool:
            found[:] = [
                finding
                for finding in self._run.findings()
                if finding.rule == rule
                and set(finding.pids) & set(self.pids)
                and all(word in finding.sentence for word in words)
            ]
            return bool(found)

        self._run.until(named, f"{rule} with {words}")
        assert found[0].simulated
        return found[0]

    def end(self) -> None:
        """Kill it."""
        self._child.kill()
        self._child.communicate()


class Run:
    """A machine and its agent."""

    def __init__(self, machine: OwnMachine, agent: AgentProcess) -> None:
        self.machine = machine
        self.agent = agent
        self._devices = iter(range(DEVICES))
        self._programs: list[Program] = []

    def device(self, count: int = 1) -> int:
        """Return the first of some devices that nobody had yet."""
        first, *_ = [next(self._devices) for _ in range(count)]
        return first

    def start(
        self,
        *,
        container: Container | None = None,
        module: str = "sim.workloads.changing",
        **parameters: float,
    ) -> Program:
        """Start a program with these parameters."""
        command = [sys.executable, "-m", module]
        command += [f"{name}={value}" for name, value in parameters.items()]
        if container is not None:
            command = container.command(command)
        child = self.machine.start(command, stdin=subprocess.PIPE)
        mark = container.id[:12] if container is not None else f"({child.pid})"
        program = Program(self, child, mark)
        self._programs.append(program)
        return program

    def findings(self) -> tuple[Finding, ...]:
        """Return what the agent says now."""
        return load_findings(self.agent.get("/api/v1/findings").encode())

    def lacked(self) -> tuple[str, ...]:
        """Return what its rules lack now."""
        return load_lacked(self.agent.get("/api/v1/findings").encode())

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a state."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                said = [f"{finding.rule}: {finding.sentence}" for finding in self.findings()]
                lines = (f"never: {what}", *said, *self.lacked(), self.agent.text[-900:])
                raise AssertionError("\n".join(lines))
            time.sleep(0.1)

    def end_programs(self) -> None:
        """End all that were started."""
        while self._programs:
            self._programs.pop().end()


@contextmanager
def live(folder: Path, *more: str) -> Iterator[Run]:
    """Yield a machine with an agent that diagnoses, with more flags."""
    machine = OwnMachine(folder, device_count=DEVICES)
    agent = AgentProcess(folder, machine, *FLAGS, *more)
    run = Run(machine, agent)
    try:
        agent.wait_ready()
        yield run
    finally:
        run.end_programs()
        agent.end()
        machine.close()
