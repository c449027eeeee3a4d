"""The whole agent on a node of 110 pods and 100 GPU processes. See README.md.

Usage: python -m benchmarks.kubernetes [--pods 110] [--processes 100] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.agent_cost import MIB, TARGET_RSS_BYTES, cpu_seconds, rss_bytes

from gpugauge.attribution.cgroup_tree import unified_root
from sim.build import compiler
from tests.linux.agents import AgentProcess, agent, metrics
from tests.linux.tracing import OwnMachine

TARGET_PERCENT = 1.0
PAUSE_US = 200_000
LAUNCHES = 20
SCRAPE_SECONDS = 15.0
NODE = "node-a"
SERVE = """
import json, sys
from pathlib import Path
from tests.k8s.fakes.api_server import PODS, FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet, Given
from tests.k8s.fakes.objects import container_id, pod, status
folder, count, gpu = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with FakeApiServer() as server, FakeKubelet(folder / "kubelet") as kubelet:
    for at in range(count):
        held = [status("main", container_id(f"pod-{at}"))]
        owner = ("StatefulSet", f"set-{at % 10}")
        server.put(PODS, pod(f"pod-{at}", "ml", containers=held, owner=owner))
        given = {"nvidia.com/gpu": [f"{gpu}::{at}"]}
        kubelet.given.append(Given("ml", f"pod-{at}", "main", given))
    print(server.kubeconfig(folder), kubelet.kubelet_path, flush=True)
    for line in sys.stdin:
        at, word = line.split()
        changed = pod(f"pod-{at}", "ml", containers=[status("main", container_id(f"pod-{at}"))],
                      owner=("StatefulSet", f"set-{int(at) % 10}"), labels={"word": word})
        server.put(PODS, changed)
"""


class Pods:
    """Cgroups of pods, as the kubelet makes them, each with one process in it."""

    def __init__(self) -> None:
        self._root = Path(unified_root("/sys/fs/cgroup")) / f"gpugauge-bench-{os.getpid()}"
        self._made: list[Path] = []
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, at: int, command: list[str], environment: dict[str, str]) -> None:
        """Start a process in the cgroup of pod number `at`."""
        from tests.k8s.fakes.objects import container_id, pod_uid

        uid, identity = pod_uid(f"ml/pod-{at}"), container_id(f"pod-{at}")
        folder = self._root / "kubepods" / "burstable" / f"pod{uid}" / identity
        folder.mkdir(parents=True)
        self._made.append(folder)
        join = ["sh", "-c", 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(folder)]
        self._children.append(subprocess.Popen([*join, *command], env=environment))

    def end(self) -> None:
        """Kill the processes and remove the cgroups."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait()
        for folder in self._made:
            for level in (folder, folder.parent):
                level.rmdir()
        for level in (self._root / "kubepods" / "burstable", self._root / "kubepods", self._root):
            if level.is_dir():
                level.rmdir()


@contextmanager
def served(folder: Path, pods: int, gpu: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Yield a process with an API server and a kubelet: (process, kubeconfig, kubelet's path)."""
    words = [sys.executable, "-c", SERVE, str(folder), str(pods), gpu]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    )
    try:
        assert child.stdout is not None
        kubeconfig, kubelet = child.stdout.readline().split()
        yield child, kubeconfig, kubelet
    finally:
        child.kill()
        child.wait()


def _environment() -> dict[str, str]:
    root = Path(__file__).resolve().parents[1]
    return dict(os.environ) | {"PYTHONPATH": f"{root}:{root / 'src'}"}


def memory(pid: int) -> dict[str, int]:
    """Return a process's memory from smaps_rollup, in bytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    pairs = (line.split()[:2] for line in lines if line.endswith("kB"))
    return {name.rstrip(":"): int(value) * 1024 for name, value in pairs}


def measure(it: AgentProcess, machine: OwnMachine, seconds: float) -> dict[str, Any]:
    """Return what the agent uses over some seconds, scraped every 15 s."""
    pid = it.child.pid
    began, cpu, calls = time.monotonic(), cpu_seconds(pid), machine.oracle.calls().total()
    scraped = 0
    while (left := seconds - (time.monotonic() - began)) > 0:
        it.get("/metrics")
        scraped += 1
        time.sleep(min(SCRAPE_SECONDS, left))
    took = time.monotonic() - began
    parts = memory(pid)
    return {
        "cpu_percent_of_core": round((cpu_seconds(pid) - cpu) / took * 100, 2),
        "rss_mib": round(rss_bytes(pid) / MIB, 1),
        "anonymous_mib": round(parts["Anonymous"] / MIB, 1),
        "shared_files_mib": round((parts["Rss"] - parts["Anonymous"]) / MIB, 1),
        "calls_per_second": round((machine.oracle.calls().total() - calls) / took),
        "scrapes": scraped,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; the exit code is 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args(arguments)
    pods = Pods()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = OwnMachine(folder, instant=1)
        paced = folder / "paced"
        source = Path(__file__).with_name("paced.c")
        subprocess.run([compiler(), "-O2", str(source), "-o", str(paced), "-ldl"], check=True)
        gpu = machine.oracle.devices()[0].uuid
        with served(folder, given.pods, gpu) as (_server, kubeconfig, kubelet):
            flags = (
                "--kubernetes-mode=on",
                f"--kubernetes-kubeconfig={kubeconfig}",
                f"--kubernetes-kubelet-path={kubelet}",
                f"--node-name={NODE}",
            )
            try:
                with agent(folder, machine, *flags) as it:
                    time.sleep(5)
                    show("no GPU process", measure(it, machine, given.seconds / 3))
                    words = [str(paced), str(machine.library), str(LAUNCHES), str(PAUSE_US)]
                    for at in range(given.processes):
                        pods.start(at, words, machine.environment)
                    time.sleep(15)
                    check(it.get("/metrics"), given.processes)
                    found = measure(it, machine, given.seconds)
                    show(f"{given.processes} GPU processes", found)
                    health = it.snapshot()["agent"]
                    ticks = {"tick_ms": health["tick_ns"] / 1e6, "late": health["tick_late"]}
                    print(json.dumps(ticks | {"bpf_mib": health["bpf_memory_bytes"] / MIB}))
            finally:
                pods.end()
    over = found["rss_mib"] * MIB > TARGET_RSS_BYTES
    return int(over or found["cpu_percent_of_core"] > TARGET_PERCENT)


def check(text: str, processes: int) -> None:
    """Hold that each process is counted for a pod of its own: else nothing was measured.

    Raises:
        AssertionError: They are not.
    """
    named = {dict(key)["pod"] for key in metrics(text, "gpugauge_launches_total")}
    assert len(named) == processes and "" not in named, named
    given = metrics(text, "gpugauge_entitled_gpus")
    assert len(given) >= processes, len(given)


def show(name: str, found: dict[str, Any]) -> None:
    """Print a line."""
    print(f"{name:20} {json.dumps(found)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
