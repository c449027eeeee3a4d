"""`kubectl gpugauge top` with the real kubectl: agents of several nodes, exact rates, screens."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpugauge.cli import main
from gpugauge.cli.terminal.table import width
from gpugauge.errors import UnavailableError
from gpugauge.model.finding import Severity
from gpugauge.model.workload import HOST, Owner, Scope
from gpugauge.remote.page import ask
from tests.k8s.fakes.api_server import PODS
from tests.k8s.fakes.waiting import until
from tests.k8s.gauges import Agent, BadAgent, Cluster, agent_pod
from tests.k8s.readings import INTERVAL_NS, Work, finding, two
from tests.support.snapshots import GPU_A, GPU_B, SECOND, device, health, owner

DATA = Path(__file__).parent.parent / "data"
ROOT = Path(__file__).parents[2]
TRAIN = owner("train-0")
SERVE = owner("serve-7d9f8b6c5-x2x7q", "web", workload="serve")
JOB = owner("a-very-long-name-of-a-job-with-many-ranks-0017", "research", container="pytorch")
PRIME = Work(
    owner=TRAIN,
    launches=15_485_863,
    nodes=32_452_843,
    to_gpu_bytes=982_451_653,
    to_host_bytes=67_867_967,
    waits_ns=1_300_000_021,
    idle_ns=433_494_437,
    held_bytes=5_915_587_277,
    requested_bytes=3_367_900_313,
)


@pytest.fixture
def top(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        often = ["--interval", "0.1", "--timeout", "60", "--kubeconfig", cluster.kubeconfig]
        code = main(["top", *often, *words])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def plain(answer: tuple[int, str]) -> dict[str, Any]:
    code, text = answer
    assert code == 0, text
    found: dict[str, Any] = json.loads(text)
    return found


def test_rates_are_exactly_what_happened_between_two_ticks(cluster: Cluster, top: Any) -> None:
    cluster.node("node-a", Agent(two([PRIME], "node-a")))
    told = plain(top("-A", "--json"))
    (row,) = told["rows"]
    seconds = INTERVAL_NS / SECOND
    assert told["interval_seconds"] == seconds
    assert row == {
        "scope": "pod",
        "namespace": "ml",
        "pod": "train-0",
        "container": "main",
        "workload": "train",
        "node": "node-a",
        "gpu_uuid": GPU_A,
        "gpu": "0",
        "launches_per_second": (15_485_863 + 32_452_843) / seconds,
        "launches_at_least": False,
        "host_waits_ratio": 1_300_000_021 / INTERVAL_NS,
        "known_idle_ratio": 433_494_437 / INTERVAL_NS,
        "to_gpu_bytes_per_second": 982_451_653 / seconds,
        "to_host_bytes_per_second": 67_867_967 / seconds,
        "memory_held_bytes": 5_915_587_277,
        "memory_requested_bytes": 3_367_900_313,
        "sharers": 1,
        "findings": [],
    }
    assert told["agents"] == [
        {
            "node": "node-a",
            "agent": "gauges/gpugauge-node-a",
            "agent_version": "0.1.0",
            "error": None,
            "next_step": None,
        }
    ]


def crowd(cluster: Cluster) -> None:
    """Three nodes with rows of every kind."""
    works = [
        PRIME,
        Work(owner=JOB, launches=2_750_159, waits_ns=INTERVAL_NS, unknown_graphs=2, idle_ns=None),
        Work(owner=HOST, gpu_uuid=GPU_B, launches=3, held_bytes=536_870_923, times=False),
    ]
    found = [
        finding("noisy_neighbour", TRAIN),
        finding("hang", TRAIN, Severity.CRITICAL),
        finding("cpu_starvation", SERVE, gpu_uuid=GPU_B, node="node-b"),
        finding("idle_holder", None),
    ]
    devices = (device(GPU_A), device(GPU_B))
    cluster.node("node-a", Agent(two(works, "node-a", devices=devices), found))
    strange = [
        Work(owner=SERVE, gpu_uuid="MIG-1", launches=1_000_003, to_gpu_bytes=1_048_583),
        Work(owner=owner("bad\x1b[31mpod\x00\u202e", container="x" * 300), launches=101),
        Work(owner=owner("日本語" * 9, "ml"), launches=199),
        Work(owner=Owner(Scope.UNKNOWN), gpu_uuid="unknown", launches=211),
        Work(owner=Owner(Scope.CONTAINER, container_id="c0ffee" * 10), launches=223, processes=2),
    ]
    mig = device("MIG-1", index=3, mig_profile="1g.10gb", mig_parent_uuid="GPU-3")
    cluster.node("node-b", Agent(two(strange, "node-b", devices=(device(), mig)), old=True))
    cluster.node("node-c", None)


@pytest.mark.parametrize("columns", [80, 160])
def test_the_table_fits_the_screen(
    cluster: Cluster, top: Any, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    crowd(cluster)
    code, text = top("-A")
    assert code == 0
    text = re.sub(r"\d\d:\d\d:\d\d", "12:34:56", text)
    assert text == (DATA / f"top_{columns}.golden.txt").read_text()
    assert max(map(width, text.splitlines())) <= columns


def test_no_colour_and_no_control_character_outside_of_a_terminal(
    cluster: Cluster, top: Any
) -> None:
    crowd(cluster)
    _, text = top("-A")
    assert all(line.isprintable() for line in text.splitlines())


def test_gpus_are_sums_of_all_that_is_on_them(cluster: Cluster, top: Any) -> None:
    works = [PRIME, Work(owner=SERVE, launches=7, to_gpu_bytes=11), Work(owner=JOB, gpu_uuid=GPU_B)]
    snapshots = two(works, "node-a", devices=(device(GPU_A), device(GPU_B)))
    cluster.node("node-a", Agent(snapshots, [finding("hang", TRAIN)]))
    one, other = plain(top("nodes", "--json"))["gpus"]
    seconds = INTERVAL_NS / SECOND
    assert one["launches_per_second"] == pytest.approx((15_485_863 + 32_452_843 + 7) / seconds)
    assert one["to_gpu_bytes_per_second"] == pytest.approx((982_451_653 + 11) / seconds)
    assert (one["pods"], one["findings"], one["memory_used_bytes"]) == (2, 1, 2_097_152_003)
    assert (other["pods"], other["findings"], other["launches_per_second"]) == (1, 0, 0.0)
    code, text = top("nodes")
    assert code == 0
    assert text.splitlines()[0].split()[:4] == ["NODE", "MODEL", "GPU", "PODS"]


def test_a_namespace_asks_only_the_nodes_of_its_pods(cluster: Cluster, top: Any) -> None:
    here, there = Agent(two([PRIME], "node-a")), Agent(two([Work(owner=SERVE)], "node-b"))
    cluster.node("node-a", here)
    cluster.node("node-b", there)
    cluster.pod("train-0", "node-a")
    cluster.pod("web-0", "node-cpu", "ml")
    cluster.pod("over", "node-b", "ml", phase="Succeeded")
    told = plain(top("-n", "ml", "--json"))
    assert [row["pod"] for row in told["rows"]] == ["train-0"]
    assert (len(here.asked), there.asked) == (4, [])
    code, text = top()  # as kubectl: the namespace of the context
    assert code == 0
    assert "no pod in the namespace default is on a node with an agent" in text


def test_one_pod_and_one_node(cluster: Cluster, top: Any) -> None:
    both = [PRIME, Work(owner=owner("train-1"), launches=5)]
    cluster.node("node-a", Agent(two(both, "node-a")))
    cluster.node("node-b", other := Agent(two([Work(owner=SERVE)], "node-b")))
    cluster.pod("train-0", "node-a")
    assert [r["pod"] for r in plain(top("--pod", "ml/train-0", "--json"))["rows"]] == ["train-0"]
    assert other.asked == []
    assert [r["pod"] for r in plain(top("--pod", "train-0", "-n", "ml", "--json"))["rows"]]
    told = plain(top("-A", "--node", "node-b", "--json"))
    assert [row["pod"] for row in told["rows"]] == [SERVE.pod]
    for words, why in (
        (["--pod", "ml/gone"], "NotFound"),
        (["--node", "node-z"], "No agent of gpugauge runs on the node node-z."),
    ):
        code, text = top("-A", *words) if "--node" in words else top(*words)
        assert code == 4
        assert why in text


def test_workloads_and_ended_pods(cluster: Cluster, top: Any) -> None:
    works = [PRIME, Work(owner=SERVE), Work(owner=owner("train-9"), processes=0, times=False)]
    cluster.node("node-a", Agent([*two(works, "node-a")] * 2))
    rows = plain(top("-A", "--json", "--workload", "train"))["rows"]
    assert [row["pod"] for row in rows] == ["train-0"]
    rows = plain(top("-A", "--json", "--ended"))["rows"]
    assert {row["pod"] for row in rows} == {"train-0", SERVE.pod, "train-9"}


# ---- faults --------------------------------------------------------------------


def test_an_older_agent_has_no_findings_and_all_else(cluster: Cluster, top: Any) -> None:
    cluster.node("node-a", Agent(two([PRIME], "node-a"), old=True))
    (row,) = plain(top("-A", "--json"))["rows"]
    assert row["findings"] is None
    assert row["launches_per_second"] == (15_485_863 + 32_452_843) / (INTERVAL_NS / SECOND)
    code, text = top("-A")
    assert code == 0
    assert text.splitlines()[1].endswith(" ?")


def test_an_agent_with_a_token_wants_it(cluster: Cluster, top: Any, tmp_path: Path) -> None:
    secret = tmp_path / "agents-token"
    secret.write_text("a-token-of-many-characters\n")
    cluster.node("node-a", Agent(two([PRIME], "node-a"), token_file=str(secret)))
    code, text = top("-A")
    assert code == 4
    assert "gauges/gpugauge-node-a wants its bearer token (HTTP 403). Give its file" in text
    rows = plain(top("-A", "--json", "--listen-bearer-token-file", str(secret)))["rows"]
    assert [row["pod"] for row in rows] == ["train-0"]


FAULTS = {
    "half": "no agent answers at gauges/gpugauge-half (the answer ends too early)",
    "huge": "the agent's answer exceeds 32 MiB",
    "endless": "the agent's answer exceeds 32 MiB",
    "web": "its answer has another form (This is not a snapshot: not JSON",
    "refuses": "no agent answers at gauges/gpugauge-refuses (failed to execute portforward: port",
    "crashes": "its pod gauges/gpugauge-crashes is not ready (CrashLoopBackOff). kubectl -n gauges "
    "describe pod gpugauge-crashes",
}


def test_an_agent_that_fails_is_a_line_and_the_others_go_on(cluster: Cluster, top: Any) -> None:
    for node in FAULTS:
        reason = "CrashLoopBackOff" if node == "crashes" else ""
        agent = None if node in ("refuses", "crashes") else BadAgent(node)
        cluster.node(node, agent, ready=reason)
    cluster.node("good", Agent(two([PRIME], "good")))
    code, text = top("-A", "--timeout", "60")
    text = " ".join(text.split())
    assert code == 0
    for node, told in FAULTS.items():
        assert f"{node}: no figures: {told}" in text
    assert "1 of 7 agents answered, rates over 2.0 s" in text
    assert "train-0" in text


@pytest.mark.parametrize("how", ["silent", "drip"])
def test_an_answer_has_its_time_as_a_whole(how: str) -> None:
    agent = BadAgent(how)
    try:
        with pytest.raises(UnavailableError, match=r"no agent answers at there \(timed out\)"):
            ask(f"http://127.0.0.1:{agent.port}", "/", where="there", seconds=0.3)
    finally:
        agent.close()


def test_who_takes_too_long_does_not_hold_up_the_others(cluster: Cluster, top: Any) -> None:
    cluster.node("silent", BadAgent("silent"))
    cluster.server.forwards.silent.add(cluster.node("hangs", None))
    cluster.node("good", Agent(two([PRIME], "good")))
    code, text = top("-A", "--timeout", "3")
    cluster.server.forwards.silent.clear()
    text = " ".join(text.split())
    assert code == 0
    assert "hangs: no figures: kubectl did not reach pod gauges/gpugauge-hangs in 3 s" in text
    assert "silent: no figures: no agent answers at gauges/gpugauge-silent (timed out)" in text
    assert "1 of 3 agents answered" in text


def test_nobody_answers(cluster: Cluster, top: Any) -> None:
    cluster.node("refuses", None)
    code, text = top("-A")
    assert code == 4
    assert "0 of 1 agents answered, no rates yet" in text


def test_more_agents_than_are_asked_at_once(cluster: Cluster, top: Any) -> None:
    nodes = [f"node-{n:02}" for n in range(11)]
    for node in nodes:
        cluster.node(node, Agent(two([Work(owner=owner(f"on-{node}"), launches=7)], node)))
    told = plain(top("-A", "--json", "--at-once", "3"))
    assert {row["node"] for row in told["rows"]} == set(nodes)
    assert {row["launches_per_second"] for row in told["rows"]} == {7 / (INTERVAL_NS / SECOND)}
    assert cluster.server.forwards.most_open <= 3


@pytest.mark.parametrize(
    ("forbidden", "words", "told"),
    [
        (PODS, ["-A"], "You may not list pods in all namespaces. It takes a ClusterRole with "
         "`list` on pods (docs/kubectl.md), or name the agents' namespace with --agent-namespace."),
        ("/api/v1/namespaces/ml/pods", ["-n", "ml"], "You may not list pods in the namespace ml. "
         "It takes a Role in ml with `list` on pods (docs/kubectl.md)."),
        ("/api/v1/namespaces/ml/pods/train-0", ["--pod", "ml/train-0"], "You may not get pods in "
         "the namespace ml. It takes a Role in ml with `get` on pods (docs/kubectl.md)."),
        ("/api/v1/namespaces/gauges/pods", ["-A", "--agent-namespace", "gauges"], "You may not "
         "list pods in the namespace gauges. It takes a Role in gauges with `list` on pods"),
    ],
)  # fmt: skip
def test_a_right_that_is_missing_is_named(
    cluster: Cluster, top: Any, forbidden: str, words: list[str], told: str
) -> None:
    cluster.node("node-a", Agent(two([PRIME], "node-a")))
    cluster.pod("train-0", "node-a")
    cluster.server.forbidden.add(forbidden)
    code, text = top(*words)
    assert code == 4
    assert text.startswith(f"gpugauge: {told}")
    assert text.count("\n") == 1


def test_rights_in_two_namespaces_are_enough(cluster: Cluster, top: Any) -> None:
    cluster.node("node-a", Agent(two([PRIME], "node-a")))
    cluster.pod("train-0", "node-a")
    cluster.server.forbidden_at_cluster_scope.add(PODS)
    told = plain(top("-n", "ml", "--agent-namespace", "gauges", "--json"))
    assert [row["pod"] for row in told["rows"]] == ["train-0"]


def test_no_right_to_forward_ports_is_a_line_for_its_node(cluster: Cluster, top: Any) -> None:
    cluster.node("node-a", Agent(two([PRIME], "node-a")))
    cluster.server.forwards.forbidden.add("gauges")
    code, text = top("-A")
    assert code == 4
    assert (
        "node-a: no figures: You may not create pods/portforward in the namespace gauges. It takes "
        "a Role in gauges with `create` on pods/portforward (docs/kubectl.md)."
    ) in " ".join(text.split())


def test_no_agents_and_no_cluster(cluster: Cluster, top: Any) -> None:
    code, text = top("-A")
    assert code == 4
    assert "No agent of gpugauge runs. Install the chart there" in text
    cluster.server.stop()
    code, text = top("-A")
    assert code == 4
    assert "kubectl says: The connection to the server" in text
    code, text = top("-A", "--context", "nowhere")
    assert code == 2
    assert "nowhere" in text


@pytest.mark.parametrize(
    "words",
    [
        ["--sort", "luck"],
        ["-n", "ml", "-A"],
        ["--pod", "../train-0"],
        ["--pod", "ml/train-0", "--node", "x"],
        ["--pod", "ml/train-0", "-n", "web"],
        ["-n", "../x"],
        ["--node", "-o"],
        ["--interval", "0"],
        ["--at-once", "65"],
        ["things"],
        ["--once", "--watch"],
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(
    cluster: Cluster, top: Any, words: list[str]
) -> None:
    code, _ = top(*words)
    assert code == 2
    assert cluster.server.requests == []


# ---- watching, and its end -----------------------------------------------------


def watching(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """Start it as a process of its own, without a terminal."""
    # A shell's job in the background ignores SIGINT, and hands that on: not what a user's ^C meets.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code += "; sys.argv[0] = 'kubectl-gpugauge'; from gpugauge.cli import main"
    line = ["top", "-A", "--watch", "--interval", "0.1", "--kubeconfig", cluster.kubeconfig, *words]
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}; sys.exit(main())", *line],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def children(pid: int) -> list[str]:
    """Return the processes that any thread of one started."""
    return [
        each
        for listed in Path(f"/proc/{pid}/task").glob("*/children")
        for each in listed.read_text().split()
    ]


def test_watching_goes_on_through_a_restart(cluster: Cluster) -> None:
    runs = [
        *two([PRIME], "node-a"),
        # Another run: its first reading has no rate, its second one has.
        *two([Work(owner=TRAIN, launches=101)], "node-a", agent=health(started_ns=13)),
    ]
    cluster.node("node-a", Agent(runs))
    child = watching(cluster, "--json")
    try:
        assert child.stdout is not None
        seen = []
        while len(seen) < 3:
            rows = json.loads(child.stdout.readline())["rows"]
            seen += [row["launches_per_second"] for row in rows]
        seconds = INTERVAL_NS / SECOND
        assert seen == [(15_485_863 + 32_452_843) / seconds, None, 101 / seconds]
    finally:
        child.terminate()
        child.communicate(timeout=20)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_whatever_ends_it_ends_every_kubectl(cluster: Cluster, number: int, code: int) -> None:
    for node in ("node-a", "node-b"):
        cluster.node(node, BadAgent("silent"))
    child = watching(cluster, "--timeout", "60")
    try:
        # In the middle of two questions that nobody will answer.
        until(lambda: cluster.server.forwards.open_now == 2)
        forwards = children(child.pid)
        assert len(forwards) == 2
        child.send_signal(number)
        child.communicate(timeout=20)
        assert child.returncode == code
        assert not any(Path(f"/proc/{each}").exists() for each in forwards)
    finally:
        child.kill()
        child.wait()


def test_an_agent_that_is_replaced_is_followed(cluster: Cluster) -> None:
    cluster.node("node-a", agent := Agent(two([PRIME], "node-a")))
    child = watching(cluster, "--json")
    try:
        assert child.stdout is not None
        told = (json.loads(line) for line in iter(child.stdout.readline, ""))
        assert next(told)["agents"][0]["agent"] == "gauges/gpugauge-node-a"
        agent.close()
        (old,) = cluster.server.objects[PODS].values()
        cluster.server.delete(PODS, old)
        # Nobody runs there for a while: that is told, and the next one is found.
        assert any(each["agents"][0]["error"] for each in told)
        cluster.server.put(PODS, agent_pod("gpugauge-next", "node-a"))
        cluster.agents.append(again := Agent(two([Work(owner=TRAIN, launches=101)], "node-a")))
        cluster.server.forwards.ports[("gauges", "gpugauge-next", 9836)] = again.port
        after = next(each for each in told if each["agents"][0]["error"] is None)
        assert after["agents"][0]["agent"] == "gauges/gpugauge-next"
        # Another pod is another run: its first reading is no end of the old one's.
        assert after["rows"][0]["launches_per_second"] in (None, 101 / (INTERVAL_NS / SECOND))
    finally:
        child.terminate()
        child.communicate(timeout=20)


def test_an_agent_that_comes_back_is_shown_again(cluster: Cluster) -> None:
    pod = cluster.node("node-a", agent := Agent(two([PRIME], "node-a")))
    child = watching(cluster)
    try:
        assert child.stdout is not None
        out = iter(child.stdout.readline, "")
        assert any("1 of 1 agents answered" in line for line in out)
        agent.close()
        assert any("no figures" in line for line in out)
        cluster.agents.append(again := Agent(two([PRIME], "node-a")))
        cluster.server.forwards.ports[("gauges", pod, 9836)] = again.port
        assert any("1 of 1 agents answered" in line for line in out)
    finally:
        child.terminate()
        child.communicate(timeout=20)


def test_this_host_s_agent_needs_no_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["gpugauge"])
    monkeypatch.setenv("PATH", "/nowhere")
    agent = Agent(two([PRIME, Work(owner=HOST)], "node-a"))
    try:
        line = ["top", "--json", "--interval", "0.1", "--listen-port", str(agent.port)]
        assert main(line) == 0
        told = json.loads(capsys.readouterr().out)
        assert [row["pod"] for row in told["rows"]] == ["train-0", ""]
        assert told["agents"][0]["node"] == "node-a"
    finally:
        agent.close()
    assert main(line) == 4
    assert "Connection refused" in json.loads(capsys.readouterr().out)["agents"][0]["error"]
    assert main(["top", "--node", "x"]) == 2
