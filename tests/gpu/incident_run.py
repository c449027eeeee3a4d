"""Programs beside a real agent, what the agent says of them and when, and its snapshots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpugauge.agent.demo_container import Container
from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from tests.gpu.agent import PORT, AgentProcess
from tests.gpu.incident_machine import Changes, Place

SECOND = 1_000_000_000
Key = tuple[str, str]
"""A rule and the kind of the program that it names."""


@dataclass(slots=True)
class Program:
    """A program of the run, in a container of its own where the machine allows it."""

    kind: str
    child: subprocess.Popen[str]
    container: Container | None
    log: Path
    words: list[dict[str, Any]] = field(default_factory=list)
    """What it told."""
    started_unix_ns: int = field(default_factory=time.time_ns)

    @property
    def ready_unix_ns(self) -> int:
        """When it told that it works."""
        return int(self.words[0].get("unix_ns", self.started_unix_ns))

    @property
    def ready(self) -> bool:
        """It works, or waits to be told to."""
        return bool(self.words)


@dataclass(slots=True)
class Named:
    """A finding as it was first seen, and as it was seen last."""

    first: Finding
    last: Finding


class Run:
    """One run."""

    def __init__(self, place: Place, out: Path, *flags: str) -> None:
        self._place = place
        self._logs = Path(tempfile.mkdtemp(prefix="gpugauge-incidents-"))
        self.programs: dict[str, Program] = {}
        self.named: dict[Key, Named] = {}
        self.lacked: tuple[str, ...] = ()
        self.snapshots: list[Snapshot] = []
        self.texts: list[str] = []
        self.notes: list[str] = []
        self._lock = threading.Lock()
        self.agent = AgentProcess(
            out / "agent.log",
            *place.flags,
            *flags,
            environment=place.environment | {"PYTHONPATH": _path()},
            tick_seconds=1.0,  # as shipped
            on_snapshot=self.snapshots.append,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    # ---- programs --------------------------------------------------------------

    def start(self, kind: str) -> Program:
        """Start a program."""
        container: Container | None
        try:
            container = Container(f"gpugauge-{kind}")
        except OSError as error:
            container = None
            self.notes.append(f"{kind} runs in no container of its own: {error}")
        command = self._place.command(kind)
        if container is not None:
            command = container.command(command)
        log = self._logs / f"{kind}.log"
        with log.open("w") as trouble:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=trouble, text=True, env=self._place.environment | {"PYTHONPATH": _path()},
            )  # fmt: skip
        program = self.programs[kind] = Program(kind, child, container, log)
        threading.Thread(target=_listen, args=(program,), daemon=True).start()
        return program

    def tell(self, kind: str, **changes: float) -> int:
        """Change what a program does, and return the time."""
        program = self.programs[kind]
        assert program.child.stdin is not None
        told: Changes = self._place.changes(kind, changes)
        if program.child.poll() is not None:
            raise RuntimeError(f"{kind} has ended:\n{program.log.read_text()[-1500:]}")
        program.child.stdin.write(json.dumps(told) + "\n")
        program.child.stdin.flush()
        return time.time_ns()

    def end(self, *kinds: str) -> None:
        """Ask programs to end, and wait until they have."""
        for kind in kinds:
            child = self.programs[kind].child
            if child.poll() is None and child.stdin is not None:
                try:
                    child.stdin.write(json.dumps({"stop": 1}) + "\n")
                    child.stdin.flush()
                except OSError:
                    pass
        for kind in kinds:
            program = self.programs[kind]
            try:
                program.child.wait(timeout=8)
            except subprocess.TimeoutExpired:
                program.child.kill()
                program.child.wait()
            if program.child.returncode not in (0, -9):
                tail = program.log.read_text()[-800:]
                self.notes.append(f"{kind} ended with {program.child.returncode}: {tail}")

    # ---- what is said ------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a state, and return whether it came."""
        until = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until:
                self.notes.append(f"not within {timeout_s:.0f} s: {what}")
                return False
            time.sleep(0.2)
        return True

    def has(self, *keys: Key) -> bool:
        """Whether all of these were named."""
        return set(keys) <= self.named.keys()

    def learns(self, *kinds: str) -> bool:
        """Whether what is usual is not yet known for some program."""
        marks = [self._mark(kind) for kind in kinds]
        lacking = [text for text in self.lacked if "to learn" in text or "past their start" in text]
        return not self.lacked or any(mark in text for text in lacking for mark in marks)

    def diagnose(self, title: str) -> None:
        """Ask as a user does, lines of Python code included."""
        answer = subprocess.run(
            [sys.executable, "-m", "gpugauge", "diagnose", "--agent", f"http://127.0.0.1:{PORT}"],
            capture_output=True, text=True, check=False, timeout=90,
            env=self._place.environment | {"PYTHONPATH": _path()},
        )  # fmt: skip
        self.texts.append(
            f"#### {title}: exit code {answer.returncode}\n\n{answer.stdout}{answer.stderr}"
        )

    def kind_of(self, finding: Finding) -> str:
        """Return which program a finding is about, "" for none of the run."""
        for kind, program in self.programs.items():
            container_id = program.container.id if program.container is not None else "-"
            if finding.owner is not None and finding.owner.container_id == container_id:
                return kind
            if program.child.pid in finding.pids:
                return kind
        return ""

    def close(self) -> None:
        """End everything and give back the cgroups."""
        self.end(*self.programs)
        self._stop.set()
        self._thread.join(timeout=10)
        code = self.agent.close()
        self.notes.append(f"the agent ended with {code}")
        for program in self.programs.values():
            if program.container is not None:
                program.container.remove()
        shutil.rmtree(self._logs)

    def _mark(self, kind: str) -> str:
        program = self.programs[kind]
        return program.container.id[:12] if program.container else f"({program.child.pid})"

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                body = self.agent.fetch("/api/v1/findings")
            except OSError:
                time.sleep(0.3)
                continue
            self.lacked = load_lacked(body)
            for finding in load_findings(body):
                key = (finding.rule, self.kind_of(finding))
                before = self.named.get(key)
                if before is None or before.first.found_unix_ns > finding.found_unix_ns:
                    self.named[key] = Named(finding, finding)
                else:
                    before.last = finding
            time.sleep(0.3)


def _listen(program: Program) -> None:
    assert program.child.stdout is not None
    for line in program.child.stdout:
        try:
            word = json.loads(line)
        except ValueError:
            continue
        program.words.append(word if isinstance(word, dict) else {"pid": word})


def _path() -> str:
    return os.pathsep.join(p for p in sys.path if p) or "."
