"""`gpugauge demo`: the agent beside workloads, what it sees, and incidents that it names."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gpugauge.agent.agent import Agent
from gpugauge.agent.demo_incidents import Incidents, Tell
from gpugauge.agent.demo_table import compare, table
from gpugauge.agent.hosts import finder
from gpugauge.agent.lock import NodeLock
from gpugauge.errors import EXIT_FOUND, EXIT_OK, UnavailableError
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings
from gpugauge.vendors import VENDORS

SECONDS = 8.0
WORKLOADS: dict[str, tuple[str, ...]] = {
    # name -> module of sim.workloads and its flags; each runs for some seconds.
    "training": ("training", "--steps=1511", "--stall-us=2000"),
    "inference": ("inference", "--requests=401"),
    "saturated": ("saturate", "--launches=30011", "--launch-us=200"),
}
"""Primes, so that a count that is right by accident is unlikely."""


def say(text: str = "") -> None:
    """Write a line to the person at the terminal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def demo(settings: Settings, tell: Tell) -> int:
    """Trace some workloads and compare with their own counts, then let incidents be diagnosed.

    Args:
        settings: Of the agent.
        tell: Makes a text of a finding.

    Raises:
        GpugaugeError: It could not start; the sentence says why.
    """
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s")
    with _machine(settings) as (given, environment, simulated):
        where = "the SIMULATED driver: no GPU is used" if simulated else "the real driver"
        say(f"gpugauge demo, on {where}")
        with NodeLock():
            agent = Agent(given)
            try:
                agent.start()
                same = _watch(agent, environment)
                named = Incidents(agent, given, environment, say, tell).show()
                say("next: sudo gpugauge run, then curl -s localhost:9836/metrics")
                return EXIT_OK if same and named else EXIT_FOUND
            finally:
                agent.close()


@contextmanager
def _machine(settings: Settings) -> Iterator[tuple[Settings, dict[str, str], bool]]:
    """Yield settings, the workloads' environment, and whether the driver is simulated."""
    real = Path("/dev/nvidiactl").exists() and finder(settings, VENDORS[0])()
    root = Path(settings.demo.libraries).resolve().parent.parent
    environment = dict(os.environ) | {"PYTHONPATH": str(root)}
    if real:
        yield settings, environment, False
        return
    folder = Path(settings.demo.libraries).resolve()
    library = folder / "libcuda.so.1"
    if not library.exists():
        raise UnavailableError(
            f"There is no driver on this machine, and no simulated one in {folder}.",
            "Run `make demo` in a checkout: it builds the simulated driver.",
        )
    with tempfile.TemporaryDirectory(prefix="gpugauge-demo-") as state:
        environment |= {
            "GPUGAUGE_SIM_STATE": f"{state}/state",
            "GPUGAUGE_SIM_LIBRARY": str(library),
            "LD_LIBRARY_PATH": str(folder),
        }
        # The simulated NVML, in this process, looks there for its devices.
        os.environ["GPUGAUGE_SIM_STATE"] = environment["GPUGAUGE_SIM_STATE"]
        attach = replace(settings.attach, libraries=(str(library),))
        yield replace(settings, attach=attach), environment, True


def _watch(agent: Agent, environment: dict[str, str]) -> bool:
    """Show a table each second while the workloads run; return whether the counts are equal."""
    before = agent.tick()
    children = {name: _start(flags, environment) for name, flags in WORKLOADS.items()}
    pids = {child.pid: name for name, child in children.items()}
    seen: dict[int, Snapshot] = {}
    ends = time.monotonic() + SECONDS * 4
    while time.monotonic() < ends and any(child.poll() is None for child in children.values()):
        time.sleep(1.0)
        agent.take_events()
        snapshot = agent.tick()
        for process in snapshot.processes:
            seen[process.pid] = snapshot
        for line in table(before, snapshot, pids):
            say(line)
        before = snapshot
    agent.take_events()
    snapshot = agent.tick()
    for process in snapshot.processes:
        seen[process.pid] = snapshot
    reports = {name: _report(child) for name, child in children.items()}
    say()
    lines, same = compare(seen, {children[name].pid: (name, report)
                                 for name, report in reports.items()})  # fmt: skip
    for line in lines:
        say(line)
    losses = {loss.name.lower(): n for loss, n in snapshot.agent.losses.items() if n}
    say(f"lost: {losses or 'nothing'}   probe hits: {snapshot.agent.hits:,}")
    return same


def _start(flags: tuple[str, ...], environment: dict[str, str]) -> subprocess.Popen[str]:
    module, *rest = flags
    return subprocess.Popen(
        [sys.executable, "-m", f"sim.workloads.{module}", *rest],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _report(child: subprocess.Popen[str]) -> dict[str, int]:
    """Return what a workload counted itself.

    Raises:
        UnavailableError: It failed, or did not end in time.
    """
    try:
        out, err = child.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise UnavailableError("A workload of the demo did not end.", "Try again.") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if child.returncode or not lines:
        last = err.strip().splitlines()[-1:] or ["no output"]
        raise UnavailableError(f"A workload of the demo failed: {last[0]}", "Try again.")
    counts: dict[str, int] = json.loads(lines[-1])["counts"]
    return counts
