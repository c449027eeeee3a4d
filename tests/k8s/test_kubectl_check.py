"""`kubectl gpugauge check`: each thing that can be wrong with an agent, and its remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpugauge.agent.watcher import OFF
from gpugauge.cli import main
from gpugauge.cli.check.health import Checkup, lines
from gpugauge.cli.check.line import Line, State
from gpugauge.model.abi import Loss
from gpugauge.model.cluster import OffSwitch
from gpugauge.model.snapshot import AgentHealth
from gpugauge.remote.reading import Reading
from gpugauge.settings import AttachMode, AttachSettings, ListenSettings, Settings
from tests.k8s.fakes.api_server import NODES
from tests.k8s.gauges import Agent, BadAgent, Cluster
from tests.support.snapshots import SECOND, health, snapshot


@pytest.fixture
def check(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        code = main(["check", "--kubeconfig", cluster.kubeconfig, *words])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def well(node: str, **given: Any) -> Agent:
    settings = given.pop("settings", None)
    return Agent([snapshot(node=node, **given)], settings=settings)


def test_a_cluster_in_order_is_a_line_a_node(cluster: Cluster, check: Any) -> None:
    for node in ("node-a", "node-b"):
        cluster.node(node, well(node, agent=health(started_ns=13 * SECOND)))
    code, text = check()
    assert code == 0
    told = "0.1.0, 1 GPU (NVIDIA H200), 233 probes by session, 58 MiB, 0.2% of a core"
    assert text == "".join(f"ok          {n:<24}{told}\n" for n in ("node-a", "node-b"))


def test_agents_that_do_not_answer_and_nodes_without_one(cluster: Cluster, check: Any) -> None:
    cluster.node("node-a", well("node-a"))
    cluster.node("node-b", None)
    cluster.node("node-c", None, ready="ImagePullBackOff")
    cluster.node("node-d", BadAgent("web"))
    bare = {"metadata": {"name": "node-e"}, "status": {"capacity": {"nvidia.com/mig-1g.10gb": "7"}}}
    cluster.server.put(NODES, bare)
    other = {"metadata": {"name": "node-f"}, "status": {"capacity": {"nvidia.com/gpu": "0"}}}
    cluster.server.put(NODES, other)
    code, text = check()
    assert code == 1
    ok, refused, crashed, web, lacking = text.splitlines()
    assert ok.startswith("ok          node-a")
    assert refused.startswith("failed      node-b")
    assert "port 9836: connection refused" in refused
    assert "is not ready (ImagePullBackOff)" in crashed
    assert "kubectl -n gauges describe pod gpugauge-node-c" in crashed
    assert web.startswith("failed      node-d")
    assert lacking.startswith("failed      node-e                  It has GPUs and no agent.")


def test_without_the_right_to_list_nodes_that_is_told_and_nothing_found(
    cluster: Cluster, check: Any
) -> None:
    cluster.node("node-a", well("node-a"))
    cluster.server.forbidden.add(NODES)
    code, text = check()
    assert code == 0
    assert text.splitlines()[1] == (
        "not seen    nodes without an agent  You may not list nodes. It takes a ClusterRole with "
        "`list` on nodes (docs/kubectl.md)."
    )


def test_one_node_one_pod_and_one_url(cluster: Cluster, check: Any) -> None:
    cluster.node("node-a", one := well("node-a"))
    cluster.node("node-b", well("node-b", simulated=True))
    cluster.pod("train-0", "node-b")
    assert check("--node", "node-a")[0] == 0
    code, text = check("--pod", "ml/train-0", "--json")
    assert code == 1
    (line,) = json.loads(text)
    assert (line["state"], line["subject"]) == ("warn", "node-b")
    assert check("--agent", f"http://127.0.0.1:{one.port}")[0] == 0
    assert check("--node", "node-z")[0] == 4


def test_an_old_agent_has_no_report(cluster: Cluster, check: Any) -> None:
    cluster.node("node-a", Agent([snapshot(node="node-a")], old=True))
    code, text = check()
    assert code == 0
    assert text.count("\n") == 1


# ---- each thing that can be wrong ------------------------------------------------


def checkup(agent: AgentHealth | None = None, **given: Any) -> Checkup:
    lacked = given.pop("lacked", ())
    usual = {"report": None, "unhealthy": "", "usual_version": "0.1.0"}
    told: dict[str, Any] = {name: given.pop(name, value) for name, value in usual.items()}
    now = snapshot(agent=agent or health(), agent_version="0.1.0", **given)
    return Checkup(node="node-a", agent="gauges/gauge-x", reading=Reading(now, (), lacked), **told)


def off(source: str, **given: Any) -> AgentHealth:
    return health(off_switches=(OffSwitch(source=source, off=True, **given),))


MAP = {"settings": {"off_switch": {"config_map": "ops/stop"}}}
WRONG: dict[str, tuple[Checkup, State, str, str]] = {
    "stalled": (
        checkup(unhealthy="the last tick ended 17 s ago"), State.FAILED,
        "It is stalled: the last tick ended 17 s ago.", "kubectl logs -n gauges gauge-x",
    ),
    "no probe": (
        checkup(health(probes={"attached": 0, "failed": 0})), State.FAILED,
        "No probe is in any of its 1 driver libraries.", "kubectl logs",
    ),
    "signal": (
        checkup(off("signal")), State.WARN, "switched off by a signal (SIGUSR1)", "SIGUSR2",
    ),
    "annotation": (
        checkup(off("node")), State.WARN, "switched off by the node's annotation",
        "kubectl annotate node node-a gpugauge.io/probes-",
    ),
    "config map": (
        checkup(off("config_map"), report=MAP), State.WARN, "by the ConfigMap ops/stop",
        "kubectl edit -n ops configmap stop",
    ),
    "switch unread": (
        checkup(health(off_switches=(OffSwitch(source="node", off=False, error="HTTP 403."),))),
        State.WARN, "The off switch by the node's annotation cannot be read: HTTP 403.", "right",
    ),
    "switch malformed": (
        checkup(health(off_switches=(OffSwitch(source="node", off=False, malformed=3),))),
        State.WARN, "3 values of the node's annotation were no word", "Write on or off.",
    ),
    "not ready": (checkup(health(ready=False)), State.WARN, "first search", "Wait"),
    "version": (
        checkup(usual_version="0.2.0"), State.WARN, "of version 0.1.0, most are of 0.2.0",
        "kubectl rollout status",
    ),
    "failed probes": (
        checkup(health(probes={"attached": 229, "failed": 4})), State.WARN,
        "4 probes could not be attached.", "kubectl logs -n gauges gauge-x",
    ),
    "lost updates": (
        checkup(health(losses={Loss.QUOTA: 1009, Loss.THREADS_FULL: 19, Loss.DUPLICATE_HITS: 5})),
        State.WARN, "1,028 updates of counters were lost since it started: quota 1,009, threads",
        "too low",
    ),
    "lost events": (
        checkup(health(losses={Loss.RING_FULL: 7})), State.WARN, "7 events were lost", "scan",
    ),
    "allocations": (
        checkup(health(losses={Loss.POINTER_UNKNOWN: 11})), State.WARN, "11 allocations",
        "lower bound",
    ),
    "unprobed": (
        checkup(health(unprobed_processes={"its library cannot be read": 13})), State.WARN,
        "13 processes use a GPU without probes: its library cannot be read.", "not counted",
    ),
    "unresolved": (
        checkup(health(unresolved={"not listed": 17})), State.WARN,
        "17 processes have no known owner: not listed.", "unknown",
    ),
    "nvml": (checkup(health(nvml_error="NVML is silent.")), State.WARN, "NVML is", "memory"),
    "pods": (
        checkup(health(pods_error="HTTP 403.")), State.WARN, "Kubernetes: HTTP 403.", "Pods",
    ),
    "watch": (
        checkup(report={"kubernetes": {"watch_age_seconds": 601.0}}), State.WARN,
        "Its watch of pods has heard nothing for 601 s.", "kubectl delete pod -n gauges gauge-x",
    ),
    "late": (
        checkup(health(tick_late=31, tick_ns=1_511_000_000), number=3001), State.WARN,
        "31 of 3,001 ticks took too long, the last one 1511 ms.", "CPU",
    ),
    "diagnosis": (checkup(lacked=(OFF,)), State.WARN, OFF, "kubectl logs"),
    "simulated": (checkup(simulated=True), State.WARN, "simulated driver", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_with_its_remedy(name: str) -> None:
    checked, state, what, remedy = WRONG[name]
    line, *more = lines(checked)
    assert all(one.state is State.OK for one in more)
    assert (line.state, line.subject) == (state, "node-a")
    assert what in line.what
    assert remedy in line.remedy


@pytest.mark.parametrize(
    "checked",
    [
        checkup(),
        checkup(health(tick_late=9), number=100),  # some scans
        checkup(health(tick_late=31), number=3101),
        checkup(health(losses={Loss.DUPLICATE_HITS: 3, Loss.ABANDONED_CALLS: 5})),  # none lost
        checkup(health(libraries=0, probes={})),  # a node without a driver idles
        checkup(report={"kubernetes": {"watch_age_seconds": 599.0}}),
        checkup(report={"kubernetes": {"watch_age_seconds": None}}),
        checkup(health(off_switches=(OffSwitch(source="signal", off=False),))),
        checkup(lacked=("Quota is not known.",)),
    ],
)
def test_what_is_not_wrong_is_not_told(checked: Checkup) -> None:
    (line,) = lines(checked)
    assert line.state is State.OK


def test_probes_that_somebody_switched_off_are_no_fault_of_the_agent() -> None:
    agent = replace(off("node"), probes={"attached": 0})
    (line,) = lines(checkup(agent))
    assert line.state is State.WARN


def test_settings_that_are_not_the_defaults_are_told(cluster: Cluster, check: Any) -> None:
    settings = Settings(
        tick_seconds=5.0,
        attach=AttachSettings(mode=AttachMode.PERF),
        listen=ListenSettings(bearer_token_file="/run/secret/token"),
        node_name="node-a",
    )
    cluster.node("node-a", well("node-a", settings=settings))
    code, text = check()
    assert code == 0
    assert text.splitlines()[1].endswith(
        "not the defaults: attach.mode=perf, listen.bearer_token_file=set, tick_seconds=5.0."
    )


def test_what_agents_say_cannot_steer_the_terminal() -> None:
    line = Line(State.WARN, "node\x1b[2J", "x\u202e" + "y" * 5000, "z\n")
    assert str(line).isprintable()
    assert len(str(line)) < 1100
