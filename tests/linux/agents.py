"""`gpugauge run` as a process of its own, on a simulated driver."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.linux.tracing import OwnMachine

ROOT = Path(__file__).resolve().parents[2]
OWN_RUN = 'mount -t tmpfs none /run && exec "$@"'
"""The agent's lock lies in /run: one of its own, so that tests do not meet other agents."""


def command(*flags: str) -> list[str]:
    """Return the command of an agent that asks nobody outside this machine."""
    return [
        sys.executable, "-m", "gpugauge", "run", "--kubernetes-mode", "off",
        "--listen-address", "127.0.0.1", *flags,
    ]  # fmt: skip


class AgentProcess:
    """A running agent; its log is in a file."""

    def __init__(
        self,
        folder: Path,
        machine: OwnMachine,
        *flags: str,
        prefix: tuple[str, ...] = ("unshare", "--mount", "sh", "-c", OWN_RUN, "sh"),
        env: dict[str, str] | None = None,
    ) -> None:
        self.log = folder / f"agent-{time.monotonic_ns()}.log"
        given = ["--attach-libraries", str(machine.library), "--listen-port", "0", *flags]
        environment = machine.environment | (env or {})
        environment["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
        with self.log.open("wb") as log:
            self.child = subprocess.Popen(
                [*prefix, *command(*given)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.port = 0

    @property
    def text(self) -> str:
        """What it logged."""
        return self.log.read_text(errors="replace")

    def wait_ready(self) -> None:
        """Wait until it serves and has scanned once."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                raise AssertionError(f"the agent ended with {self.child.returncode}:\n{self.text}")
            found = re.search(r"serving on port (\d+)", self.text)
            if found:
                self.port = int(found[1])
                if self.status("/readyz") == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(f"the agent was not ready:\n{self.text}")

    def get(self, path: str) -> str:
        """Return a page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def status(self, path: str) -> int:
        """Return the status of a page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as it:
                return int(it.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def snapshot(self) -> dict[str, Any]:
        """Return the newest snapshot."""
        return dict(json.loads(self.get("/api/v1/snapshot")))

    def next_snapshot(self) -> dict[str, Any]:
        """Return a snapshot that was read wholly after this call."""
        number = self.snapshot()["number"]
        while True:
            found = self.snapshot()
            if found["number"] > number + 1:
                return found
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> float:
        """Send a signal, and return how long the agent took to end, in seconds."""
        began = time.monotonic()
        os.kill(self.child.pid, number)
        self.child.wait(60)
        return time.monotonic() - began


@contextmanager
def agent(folder: Path, machine: OwnMachine, *flags: str, **more: Any) -> Iterator[AgentProcess]:
    """Yield a ready agent."""
    made = AgentProcess(folder, machine, *flags, **more)
    try:
        made.wait_ready()
        yield made
    finally:
        if made.child.poll() is None:
            made.end()


def metrics(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the samples of a metric, by sorted labels."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
        if match:
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[1] or "")
            found[tuple(sorted(labels))] = float(match[2])
    return found
