"""Each rule names its incident, made by a program on the simulated driver, in a live run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.agent.demo_container import Container
from gpugauge.codec.finding import load_findings
from gpugauge.diagnosis.rules import RULES
from tests.incidents.live import FLAGS, Run, live
from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.whole import Cluster
from tests.linux.agents import ROOT

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with live(tmp_path_factory.mktemp("live")) as run:
        yield run


@pytest.fixture
def run(machine: Run) -> Iterator[Run]:
    yield machine
    for symbol in ("cuCtxSynchronize_v2", "cuMemsetD8Async"):
        machine.machine.control.heal(symbol)
    machine.end_programs()


def test_added_synchronization(run: Run) -> None:
    reader = run.start(device=run.device())
    reader.wait_known()
    reader.tell(reads=8, read_bytes=4 << 20)
    finding = reader.wait_named("added_synchronization", "copies to the host of 4.0 MiB")
    assert finding.severity == "warning"
    answer = subprocess.run(
        [sys.executable, "-m", "gpugauge", "diagnose", "--agent",
         f"http://127.0.0.1:{run.agent.port}", "--since", "1h"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout.startswith("SIMULATED")
    assert "changing.py" in answer.stdout
    assert "log_tensor" in answer.stdout, answer.stdout


def test_noisy_neighbour(run: Run) -> None:
    device = run.device()
    victim = run.start(device=device)
    victim.wait_known()
    other = run.start(device=device, launches=100, launch_us=4000)
    finding = victim.wait_named("noisy_neighbour", f"({other.pid})")
    (party,) = finding.parties
    assert party.pid == other.pid
    assert party.demand_ratio is not None and 0 < party.demand_ratio < 1


def test_cpu_starvation_by_a_quota(tmp_path: Path) -> None:
    # The CPU side is read every five seconds: until it was read twice it is not known.
    slower = ("--diagnosis-baseline-windows=6", "--diagnosis-quarantine-seconds=6")
    with live(tmp_path, *slower) as run:
        container = Container("gpugauge-test-starved")
        try:
            starved = run.start(
                device=run.device(), container=container, cpu_ms=6, rest_ms=0, launches=10
            )
            starved.wait_known()
            container.limit_cpu(0.06)  # felt on a machine that is busy anyway
            starved.wait_named("cpu_starvation", "quota of 0.06 cores, which it did not have")
        finally:
            run.end_programs()
            container.remove()


def test_hang(run: Run) -> None:
    hanging = run.start(device=run.device())
    run.machine.control.hang("cuCtxSynchronize_v2")
    hanging.tell(hang=1)
    finding = hanging.wait_named("hang", "cuCtxSynchronize_v2 is open for")
    assert finding.severity == "critical"


def test_idle_holder(run: Run) -> None:
    holder = run.start(device=run.device())
    holder.tell(pause=1)
    holder.wait_named("idle_holder", "MiB of GPU memory", "at 3.50 USD per hour")


def test_launch_bound(run: Run) -> None:
    tiny = run.start(device=run.device(), launches=4000, launch_us=2, rest_ms=0, drain=0)
    tiny.wait_named("launch_bound", "is limited by its launches")


def test_host_slow(run: Run) -> None:
    issuer = run.start(device=run.device(), launches=200, launch_us=10, rest_ms=0)
    issuer.wait_known()
    run.machine.control.configure(issue_ns=14_000)
    try:
        issuer.wait_named("host_slow", "issuing a launch takes")
    finally:
        run.machine.control.configure(issue_ns=4_000)


def test_transfer_bound(run: Run) -> None:
    copier = run.start(device=run.device(), launches=10, pageable=1, batch_bytes=60 << 20)
    copier.wait_named("transfer_bound", "mostly to the GPU")


def test_allocator_churn(run: Run) -> None:
    churner = run.start(device=run.device(), launches=10, allocations=40)
    churner.wait_named("allocator_churn", "allocating and freeing GPU memory")


def test_gpu_saturated(run: Run) -> None:
    busy = run.start(device=run.device(), launches=400, launch_us=300, rest_ms=0, drain=0)
    finding = busy.wait_named("gpu_saturated", "keeps its GPU busy")
    assert finding.severity == "info"


def test_out_of_memory(run: Run) -> None:
    hungry = run.start(device=run.device())
    hungry.tell(huge=1)
    hungry.wait_named("out_of_memory", "asking for 1024.0 GiB when ", "were free")


def test_cuda_errors(run: Run) -> None:
    failing = run.start(device=run.device())
    run.machine.control.fail("cuMemsetD8Async", 700)
    failing.tell(set=1)
    finding = failing.wait_named("cuda_errors", "(700)", "its context is lost")
    assert finding.severity == "critical"


def test_held_above_requested(run: Run) -> None:
    # Each takes a chunk of 2 MiB, of which half is not asked for.
    keeper = run.start(device=run.device(), blocks=1500)
    keeper.wait_named("held_above_requested", "neither requested nor its contexts'")


def test_rank_straggler(run: Run) -> None:
    job = run.start(module="tests.incidents.ranks", device=run.device(4), ranks=4)
    job.tell(slow=20)
    finding = job.wait_named("rank_straggler", "is what the other 3 processes of its job here")
    assert finding.pids == (job.pids[0],)


def test_unrequested_gpu(tmp_path: Path) -> None:
    with FakeApiServer() as server, FakeKubelet(tmp_path / "kubelet") as kubelet:
        cluster = Cluster(tmp_path, server, kubelet)
        try:
            cluster.give(cluster.a)
            agent = cluster.start_agent(*FLAGS)
            for one in (cluster.a, cluster.b):
                one.start()
                one.show()
            said: dict[str, str] = {}
            for _ in range(2000):  # turns of some milliseconds
                cluster.a.work()
                cluster.b.work()
                found = load_findings(agent.get("/api/v1/findings").encode())
                said = {f.owner.pod: f.sentence for f in found
                        if f.owner is not None and f.rule == "unrequested_gpu"}  # fmt: skip
                if said:
                    break
            assert list(said) == ["b"]
            assert "it asked for none" in said["b"]
        finally:
            cluster.close()


def test_every_rule_has_a_live_run() -> None:
    text = Path(__file__).read_text()
    assert [rule.id for rule in RULES if f"def test_{rule.id}" not in text] == []
