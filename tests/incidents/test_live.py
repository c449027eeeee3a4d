"""Incidents on the simulated driver, through real probes and a real agent, named by its rules.

One run of some twenty seconds: each incident has a device of its own. The windows are
shorter than by default; everything else is as shipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.codec.finding import load_findings, load_lacked
from gpugauge.model.finding import Finding
from tests.linux.agents import ROOT, AgentProcess
from tests.linux.tracing import OwnMachine

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root"),
    pytest.mark.timeout(180),
]

SHORT = {
    "tick-seconds": 0.5,
    "diagnosis-window-seconds": 3,
    "diagnosis-evaluate-seconds": 0.5,
    "diagnosis-confirm-seconds": 2,
    "diagnosis-startup-seconds": 2,
    "diagnosis-quarantine-seconds": 2,
    "diagnosis-baseline-windows": 2,
    "diagnosis-hang-seconds": 6,
    "diagnosis-idle-holder-seconds": 7,
    "diagnosis-cpu-starvation-pause-seconds": 0,
    "diagnosis-launch-bound-launches-per-second": 1000,
    "price-per-gpu-hour": "NVIDIA H200=3.5",
}
LEARN_S = 14.0
NAME_S = 40.0
DEVICES = 8
CONTROLLERS = ("cpu", "cpuacct", "memory", "unified", "")
CONTAINER = "5" * 64


class Run:
    """Programs on the machine, and what the agent says of them."""

    def __init__(self, machine: OwnMachine, agent: AgentProcess) -> None:
        self.machine = machine
        self.agent = agent
        self.children: list[subprocess.Popen[str]] = []
        self.found: dict[tuple[str, int], Finding] = {}

    def start(self, *, limited: bool = False, **parameters: float) -> subprocess.Popen[str]:
        """Start tests/incidents/train.py with these parameters."""
        command = [sys.executable, str(ROOT / "tests" / "incidents" / "train.py")]
        command += [f"{name}={value}" for name, value in parameters.items()]
        child = self.machine.start(
            command, stdin=subprocess.PIPE, preexec_fn=join_container if limited else None
        )
        self.children.append(child)
        assert child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        return child

    def tell(self, child: subprocess.Popen[str], **changes: float) -> None:
        """Change how its next steps are."""
        assert child.stdin is not None
        child.stdin.write(json.dumps(changes) + "\n")
        child.stdin.flush()

    def watch(self, seconds: float, wanted: set[tuple[str, int]], words: str = "") -> None:
        """Collect findings until all that are wanted were there, or time is up.

        Of CPU starvation only those count that hold `words`: the machine has causes of its own.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and not (wanted and wanted <= self.found.keys()):
            for finding in load_findings(self.agent.get("/api/v1/findings").encode()):
                if finding.rule == "cpu_starvation" and words not in finding.sentence:
                    continue
                for pid in finding.pids:
                    self.found[(finding.rule, pid)] = finding
            time.sleep(0.3)

    def close(self) -> None:
        """End the programs."""
        for child in self.children:
            child.kill()
            child.communicate()


def container_folders() -> list[Path]:
    roots = [Path("/sys/fs/cgroup", name) for name in CONTROLLERS]
    return [root / "docker" / CONTAINER for root in roots if (root / "cgroup.procs").exists()]


def join_container() -> None:
    for folder in container_folders():
        (folder / "cgroup.procs").write_text(str(os.getpid()))


def limit_cpu(cores: float) -> None:
    for folder in container_folders():
        if (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))
        elif (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{int(cores * 100_000)} 100000")


@contextlib.contextmanager
def container() -> Iterator[bool]:
    """Make the cgroups of a container; False where this machine does not allow it."""
    folders = container_folders()
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        limits = ("cpu.cfs_quota_us", "cpu.max")
        yield any((folder / name).exists() for folder in folders for name in limits)
    finally:
        for folder in folders:
            for _ in range(50):  # until its last process is gone
                with contextlib.suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.1)
            with contextlib.suppress(OSError):  # others may have containers there
                folder.parent.rmdir()


def run_of(folder: Path) -> Iterator[Run]:
    machine = OwnMachine(folder, device_count=DEVICES)
    flags = [f"--{name}={value}" for name, value in SHORT.items()]
    agent = AgentProcess(folder, machine, *flags)
    run = Run(machine, agent)
    try:
        agent.wait_ready()
        yield run
    finally:
        run.close()
        agent.child.terminate()
        agent.child.wait(30)
        machine.close()


def test_incidents_on_the_simulated_driver_are_named(tmp_path: Path) -> None:
    with container() as has_limits, contextlib.contextmanager(run_of)(tmp_path) as run:
        reader = run.start(device=0)
        victim = run.start(device=1)
        starved = run.start(device=2, limited=has_limits, cpu_ms=12, rest_ms=0, launches=10)
        hanging = run.start(device=3)
        holder = run.start(device=4)
        copier = run.start(device=5, launches=10)
        failing = run.start(device=6)
        hungry = run.start(device=7)
        run.watch(LEARN_S, set())
        # On a busy machine the CPU may really be short: that alone may be said.
        busy = ("cpu_starvation", "host_slow")
        blamed = {f.rule for f in run.found.values() if f.severity != "info"}
        assert blamed <= set(busy), run.found
        run.found.clear()

        run.tell(reader, reads=8, read_bytes=4 << 20)
        other = run.start(device=1, launches=100, launch_us=4000)
        limit_cpu(0.1)
        run.machine.control.hang("cuCtxSynchronize_v2")
        run.tell(hanging, hang=1)
        run.tell(holder, pause=1)
        run.tell(copier, pageable=1, batch_bytes=60 << 20)
        run.machine.control.fail("cuMemsetD8Async", 700)
        run.tell(failing, set=1)
        run.tell(hungry, huge=1)
        wanted = {
            ("added_synchronization", reader.pid),
            ("noisy_neighbour", victim.pid),
            ("hang", hanging.pid),
            ("idle_holder", holder.pid),
            ("transfer_bound", copier.pid),
            ("cuda_errors", failing.pid),
            ("out_of_memory", hungry.pid),
        }
        if has_limits:
            wanted.add(("cpu_starvation", starved.pid))
        run.watch(NAME_S, wanted, "quota of 0.1 cores")
        found = run.found
        missing = sorted(wanted - found.keys())
        if missing:
            lacked = load_lacked(run.agent.get("/api/v1/findings").encode())
            said = [f.sentence for f in found.values()]
            pytest.fail("\n".join(map(str, (missing, *said, *lacked, run.agent.text[-900:]))))
        assert "synchronizations" in found["added_synchronization", reader.pid].sentence
        parties = found["noisy_neighbour", victim.pid].parties
        assert other.pid in {party.pid for party in parties}
        assert "cuCtxSynchronize" in found["hang", hanging.pid].sentence
        assert "1024.0 GiB" in found["out_of_memory", hungry.pid].sentence
        assert "(700)" in found["cuda_errors", failing.pid].sentence
        if has_limits:
            assert "quota of 0.1 cores" in found["cpu_starvation", starved.pid].sentence
        assert all(finding.simulated for finding in found.values())

        answer = subprocess.run(
            [sys.executable, "-m", "gpugauge", "diagnose", "--agent",
             f"http://127.0.0.1:{run.agent.port}", "--since", "1h"],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert answer.returncode == 1, answer.stderr
        assert answer.stdout.startswith("SIMULATED")
        assert f"{Path('train.py')}" in answer.stdout
        assert "log_tensor" in answer.stdout, answer.stdout
