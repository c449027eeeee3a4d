"""The agent under validation, and every snapshot it made."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gpugauge.codec.snapshot import load_snapshot
from gpugauge.model.process import Process
from gpugauge.model.snapshot import Snapshot

PORT = 9837
TICK_SECONDS = 0.5


class AgentProcess:
    """`gpugauge run`, polled thrice a tick, so that no snapshot is missed."""

    def __init__(
        self,
        log: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        tick_seconds: float = TICK_SECONDS,
        on_snapshot: Callable[[Snapshot], None] = lambda _: None,
    ) -> None:
        self._log = log.open("w")
        self._tick_seconds = tick_seconds
        self._on_snapshot = on_snapshot
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpugauge", "run", f"--listen-port={PORT}",
             f"--tick-seconds={tick_seconds}", *flags],
            stdout=self._log, stderr=self._log, env=environment,
        )  # fmt: skip
        self.last: dict[int, Process] = {}
        self.newest: Snapshot | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        self.wait_ticks(2, timeout_s=40)

    def fetch(self, path: str) -> bytes:
        """Return a page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=5) as answer:
            return bytes(answer.read())

    def wait_ticks(self, ticks: int, timeout_s: float = 15) -> Snapshot:
        """Return the snapshot after this many more ticks."""
        wanted = (self.newest.number if self.newest else 0) + ticks
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.newest is not None and self.newest.number >= wanted:
                return self.newest
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the agent made no snapshot:\n{Path(self._log.name).read_text()}")

    def close(self) -> int:
        """End it by SIGTERM and return its exit code."""
        self._stop.set()
        self.process.terminate()
        code = self.process.wait(timeout=10)
        self._thread.join(timeout=2)
        self._log.close()
        return code

    def _poll(self) -> None:
        while not self._stop.is_set():
            try:
                snapshot = load_snapshot(self.fetch("/api/v1/snapshot"))
            except OSError:
                time.sleep(0.05)
                continue
            if self.newest is None or snapshot.number > self.newest.number:
                self._on_snapshot(snapshot)
            self.newest = snapshot
            for process in snapshot.processes:
                self.last[process.pid] = process
            time.sleep(self._tick_seconds / 3)
