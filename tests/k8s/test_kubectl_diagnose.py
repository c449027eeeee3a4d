"""`kubectl gpugauge diagnose NAMESPACE/POD`: findings of a pod anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpugauge.cli import main
from gpugauge.model.finding import Severity
from tests.k8s.gauges import FINDINGS, Agent, BadAgent, Cluster
from tests.k8s.readings import Work, finding, two
from tests.support.snapshots import owner, snapshot

TRAIN, SERVE = owner("train-0"), owner("serve-1", "web")


@pytest.fixture
def diagnose(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        code = main(["diagnose", "--kubeconfig", cluster.kubeconfig, *words])
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def agent(node: str, *findings: Any) -> Agent:
    # What was found is served with the snapshot: asked for once here.
    made = Agent(two([Work(owner=TRAIN)], node), findings)
    made.publish()
    return made


def test_a_pod_s_findings_come_from_its_node_s_agent(cluster: Cluster, diagnose: Any) -> None:
    here = agent("node-a", finding("hang", TRAIN), finding("idle_holder", SERVE))
    there = agent("node-b", finding("hang", TRAIN))
    cluster.node("node-a", here)
    cluster.node("node-b", there)
    cluster.pod("train-0", "node-a")
    code, text = diagnose("ml/train-0", "--json")
    assert code == 1
    assert [one["rule"] for one in json.loads(text)["findings"]] == ["hang"]
    assert (here.asked, there.asked) == ([FINDINGS], [])
    for words in (["--pod", "ml/train-0"], ["train-0", "-n", "ml"]):
        code, text = diagnose(*words)
        assert code == 1
    assert text.startswith("WARNING hang, since ")
    cluster.pod("calm-0", "node-a")
    code, text = diagnose("ml/calm-0")
    assert code == 0
    assert text.startswith("Nothing found about ml/calm-0 (node-a).")


def test_what_an_agent_sends_cannot_steer_the_terminal(cluster: Cluster, diagnose: Any) -> None:
    nasty = "x\x1b[2J\u202e\x9b31m"
    sent = finding(
        nasty, owner(nasty), sentence=nasty, remedy=nasty, also=(nasty,), lacked=(nasty,)
    )
    cluster.node("node-a", agent("node-a", sent))
    code, text = diagnose("--node", "node-a")
    assert code == 1
    assert all(line.isprintable() for line in text.splitlines())


def test_without_a_pod_all_agents_are_asked_and_the_worst_comes_first(
    cluster: Cluster, diagnose: Any
) -> None:
    cluster.node("node-a", agent("node-a", finding("idle_holder", SERVE, Severity.INFO)))
    cluster.node("node-b", agent("node-b", finding("hang", TRAIN, Severity.CRITICAL)))
    cluster.node("node-c", None)
    code, text = diagnose()
    assert code == 1
    assert text.index("CRITICAL hang") < text.index("INFO idle_holder")
    text = " ".join(text.split())
    assert "What could not be seen: - node-c: no agent answers at gauges/gpugauge-node-c" in text
    code, text = diagnose("--node", "node-a", "--json")
    assert [one["rule"] for one in json.loads(text)["findings"]] == ["idle_holder"]


def test_what_keeps_it_from_looking_is_exit_code_2(cluster: Cluster, diagnose: Any) -> None:
    cluster.node("node-a", BadAgent("half"))
    cluster.pod("train-0", "node-a")
    cluster.pod("waits-0", "")
    for words, why in (
        (["ml/train-0"], "no agent answers at gauges/gpugauge-node-a (the answer ends too early)"),
        (["ml/gone"], "NotFound"),
        (["ml/waits-0"], "The pod ml/waits-0 is on no node, or has ended."),
        (["other-0", "-n", "ml"], "NotFound"),
        (["ml/train-0", "-n", "web"], "is not in -n web"),
        (["ml/--all"], "is no pod. Name one as NAMESPACE/POD."),
    ):
        code, text = diagnose(*words)
        assert code == 2, text
        assert text.startswith("gpugauge: could not look: ")
        assert why in text


def test_an_agent_that_does_not_diagnose_is_watched(
    cluster: Cluster, diagnose: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpugauge.cli.diagnose.source.WATCH_SECONDS", 0.3)
    cluster.node("node-a", Agent([snapshot(number=n) for n in range(1, 99)], old=True))
    monkeypatch.setenv("GPUGAUGE_TICK_SECONDS", "0.1")
    code, text = diagnose("--node", "node-a")
    assert code == 0
    assert "Nothing found (node-a)" in text
