"""`kubectl gpugauge` and a real agent: real BPF, real pods on a simulated GPU, real kubectl."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.cli import main
from gpugauge.cli.target import Target
from gpugauge.cli.top.look import Looks
from gpugauge.cli.top.rows import Row
from gpugauge.remote.agents import find
from gpugauge.remote.fleet import Fleet
from gpugauge.remote.kubectl import Kubectl
from gpugauge.remote.link import PodLink
from gpugauge.units import NS_PER_SECOND
from tests.k8s.fakes.api_server import NODES, PODS, FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import NODE
from tests.k8s.fakes.waiting import until
from tests.k8s.gauges import NAMESPACE, Agent, agent_pod
from tests.k8s.gauges import Cluster as Gauges
from tests.k8s.kubectl import as_plugin, use_kubectl
from tests.k8s.readings import Work, two
from tests.k8s.whole import Cluster
from tests.support.snapshots import owner


@pytest.fixture
def whole(
    tmp_path: Path,
    server: FakeApiServer,
    kubelet: FakeKubelet,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    use_kubectl(tmp_path, monkeypatch)
    as_plugin(monkeypatch)
    made = Cluster(tmp_path, server, kubelet)
    try:
        server.paths.add(NODES)
        server.tokens.add("")  # without TLS kubectl sends no token
        agent = made.start_agent()
        for one in (made.a, made.b):
            one.start()
            one.show()
        made.give(made.a, made.b)
        server.put(PODS, agent_pod("gauge", NODE))
        server.forwards.ports[(NAMESPACE, "gauge", 9836)] = agent.port
        yield made
    finally:
        made.close()


def test_what_pods_do_between_two_looks_is_what_top_shows(
    whole: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl = Kubectl(str(whole.kubeconfig))
    agents = find(kubectl)
    assert list(agents) == [NODE]
    assert whole.agent is not None
    whole.a.work()
    whole.b.work()
    with Fleet([PodLink(kubectl, agents[NODE])]) as fleet:
        looks = Looks(fleet, 30.0)

        def both_named() -> bool:
            found = looks.look().rows(Target(()), "", "name", ended=False)
            return [row.owner.pod for row in found] == ["a", "b"]

        until(both_named, seconds=60)
        whole.agent.next_snapshot()
        looks.look()
        for _ in range(3):
            whole.a.work()
        whole.agent.next_snapshot()
        look = looks.look()
        a, b = look.rows(Target(()), "", "name", ended=False)
    seconds = look.interval_seconds
    assert seconds is not None

    def times(rate: float | None) -> float:
        assert rate is not None
        return rate * seconds

    assert times(a.launches_per_second) == pytest.approx(3 * whole.a.launches)
    assert times(a.to_gpu_bytes_per_second) == pytest.approx(3 * whole.a.size)
    assert times(a.to_host_bytes_per_second) == pytest.approx(3 * whole.a.size)
    assert (times(b.launches_per_second), times(b.to_gpu_bytes_per_second)) == (0, 0)
    assert a.memory_requested_bytes == 4 * whole.a.size
    assert (a.gpu_uuid, a.sharers, a.owner.workload) == (whole.gpu_uuid, 2, "a-set")
    assert_bounds(a, seconds)
    # The same agent, as the command asks it.
    line = ["--kubeconfig", str(whole.kubeconfig), "--json"]
    assert main(["top", "-n", "ml", "--interval", "0.1", *line]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {(row["namespace"], row["pod"]) for row in rows} == {("ml", "a"), ("ml", "b")}
    assert main(["check", *line]) == 1
    found = {(one["state"], one["what"]) for one in json.loads(capsys.readouterr().out)}
    assert ("warn", "Its figures are those of the simulated driver.") in found
    assert not {state for state, _ in found} & {"failed"}
    assert main(["diagnose", "ml/a", *line]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["version"] == 1
    until(lambda: whole.server.forwards.open_now == 0)


def assert_bounds(row: Row, seconds: float) -> None:
    assert row.host_waits_ratio is not None
    assert 0 < row.host_waits_ratio <= 1
    assert row.known_idle_ratio is None or 0 <= row.known_idle_ratio <= 1
    assert seconds * NS_PER_SECOND > 0


def test_kubectl_finds_the_plugin_and_a_terminal_is_drawn_in_place(
    cluster: Gauges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "kubectl-gpugauge"
    code = "import sys; from gpugauge.cli import main; sys.exit(main())"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o755)
    cluster.node("node-a", Agent(two([Work(owner=owner(), launches=7)], "node-a")))
    near, far = pty.openpty()
    environ = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "KUBECONFIG": cluster.kubeconfig,
        "TERM": "xterm",
    }
    line = ["kubectl", "gpugauge", "top", "-A", "--interval", "0.1"]
    child = subprocess.Popen(line, stdin=far, stdout=far, stderr=far, env=environ)
    os.close(far)
    seen = b""
    try:
        while seen.count(b"\x1b[H") < 3:
            seen += os.read(near, 65_536)
    finally:
        child.terminate()
        child.wait(timeout=20)
        os.close(near)
    first, second = seen.split(b"\x1b[H")[1:3]
    assert b"\x1b[1mNAMESPACE" in first
    assert b"train-0" in second
    assert seen.count(b"\x1b[2J") == 1
