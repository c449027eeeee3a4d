"""The agent's page and the command: the same answer, over HTTP and joined with the asker's."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gpugauge.cli import main
from gpugauge.errors import ForeignDataError, SettingError, UnavailableError
from gpugauge.explain import PATH, page
from gpugauge.explain.gather.look import look
from gpugauge.explain.report import Layer, Verdict
from gpugauge.explain.text import report_text
from gpugauge.explain.walk import walk
from gpugauge.export.http import Answer, Page, Request, Server
from gpugauge.remote.page import ask
from gpugauge.settings import ListenSettings
from tests.explain import objects
from tests.explain.cases import no_device_inside, untolerated_taint
from tests.explain.stage import COLLECTIONS, WANTED, Stage
from tests.k8s.fakes.waiting import until
from tests.k8s.kubectl import as_plugin, use_kubectl


def served(stage: Stage) -> Server:
    stage._publish()
    sources = stage.sources()

    def answer(request: Request) -> Answer:
        return Answer(
            page.answer(request.query, lambda wanted: look(wanted, sources)), "application/json"
        )

    server = Server(ListenSettings(address="127.0.0.1", port=0), {PATH: Page(answer)})
    server.start()
    return server


def test_evidence_survives_the_way_as_it_is(stage: Stage) -> None:
    evidence = stage.evidence()
    data = page.dump(evidence, walk(evidence))
    assert page.load_evidence(data) == evidence
    assert b"hunter2" not in data
    assert walk(page.load_evidence(data)) == walk(evidence)


def test_the_report_as_json_has_words_and_no_numbers_for_the_unknown(stage: Stage) -> None:
    no_device_inside(stage)
    plain = page.report_plain(stage.explain())
    assert json.loads(json.dumps(plain)) == plain
    steps = {step["layer"]: step for step in plain["steps"]}
    assert list(steps) == [layer.value for layer in Layer]
    assert steps["container runtime"]["verdict"] == "broken"
    first = steps["container runtime"]["answers"][1]
    assert (first["case"], first["guess"]) == (32, False)
    assert set(first) >= {"seen", "expected", "verdict", "next_step"}
    assert plain["broken"] == "container runtime"


def test_the_command_asks_an_agent(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    no_device_inside(stage)
    server = served(stage)
    try:
        url = f"http://127.0.0.1:{server.port}"
        config = str(stage.server.kubeconfig(tmp_path))
        arguments = ["explain", WANTED, "--agent", url, "--kubeconfig", config]
        assert main([*arguments]) == 1
        text = capsys.readouterr().out
        assert "container main has no NVIDIA device" in text
        assert main([*arguments, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["broken"] == "container runtime"
        assert main(["explain", "--node", "--agent", url]) == 0
        assert capsys.readouterr().out.startswith("node gpu-node-1\n")
    finally:
        server.close()


def test_what_the_agent_may_not_ask_the_asker_adds(stage: Stage) -> None:
    stage.server.forbidden = {path for path in COLLECTIONS if not path.endswith("/pods")}
    from_agent = stage.evidence()
    assert from_agent.node is None and from_agent.events is None
    stage.server.forbidden = set()
    own = stage.evidence(local=False)
    assert own.driver is None
    joined = page.joined(from_agent, own)
    assert joined.node == own.node
    assert joined.driver == from_agent.driver
    assert not set(joined.missing) & {"node", "events", "runtime_handler"}
    report = walk(joined)
    assert [s.layer for s in report.steps if s.verdict is not Verdict.OK] == []


def test_from_elsewhere_the_api_server_alone_is_enough_for_a_pending_pod(stage: Stage) -> None:
    untolerated_taint(stage)
    report = stage.explain(local=False)
    assert report.broken == "scheduling"
    assert "has taint" in report_text(report)


NO_PODS = ("", "train-0", "ml/", "/train-0", "ml/train-0/x", "ML/x", "ml/x y", "ml/../../x")


@pytest.mark.parametrize("text", [*NO_PODS, "a/" + "b" * 300])
def test_what_is_no_pod_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError):
        page.wanted_pod(text)
    if text:
        assert main(["explain", text]) == 2
        assert "NAMESPACE/POD" in capsys.readouterr().err


def test_a_pod_and_the_node_are_two_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 2
    assert main(["explain", "ml/x", "--node"]) == 2
    assert "Nothing to explain was named" in capsys.readouterr().err


def test_no_agent_is_an_error_of_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ml/x", "--agent", "http://127.0.0.1:1"]) == 4
    assert "no agent answers at 127.0.0.1:1" in capsys.readouterr().err
    assert main(["explain", "ml/x", "--agent", "ftp://127.0.0.1:1"]) == 2


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":2}', b"\xff", b"[" * 9999])
def test_an_answer_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(ForeignDataError):
        page.load_evidence(data)


def test_a_page_that_is_not_there(stage: Stage) -> None:
    server = served(stage)
    try:
        with pytest.raises(UnavailableError, match="HTTP 404"):
            ask(f"http://127.0.0.1:{server.port}", "/api/v1/other")
    finally:
        server.close()


def test_a_query_for_half_a_pod_is_refused(stage: Stage) -> None:
    with pytest.raises(SettingError):
        page.answer("namespace=ml", lambda _: stage.evidence())
    evidence = stage.evidence("")
    assert json.loads(page.answer("", lambda _: evidence))["report"]["subject"] == "node gpu-node-1"


def test_only_documented_names_leave_the_container(stage: Stage) -> None:
    stage.environment(
        CUDA_VISIBLE_DEVICES="0",
        NVIDIA_API_KEY="nvapi-secret",
        CUDA_MPS_PIPE_DIRECTORY="/tmp/" + "x" * 999,
        NVIDIA_VISIBLE_DEVICES="GPU-1\x1b[31m",
    )
    seen = stage.evidence().containers
    assert seen is not None
    names = seen[0].environment
    assert names is not None
    assert set(names) == {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_MPS_PIPE_DIRECTORY",
        "NVIDIA_VISIBLE_DEVICES",
    }
    assert len(names["CUDA_MPS_PIPE_DIRECTORY"]) == 256
    assert names["NVIDIA_VISIBLE_DEVICES"] == "GPU-1?[31m"
    assert replace(seen[0], environment=None).environment is None


def test_it_is_a_plugin_of_kubectl_too() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    scripts = tomllib.loads(text)["project"]["scripts"]
    assert scripts["kubectl-gpugauge"] == scripts["gpugauge"] == "gpugauge.cli:main"


def agent_pod() -> objects.Object:
    one = objects.pod(
        "gauge-x7f2p", "monitoring", spec={"nodeName": objects.NODE, "containers": []}
    )
    one["metadata"]["labels"] = {"app.kubernetes.io/name": "gpugauge"}
    one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return one


def elsewhere(stage: Stage, folder: Path) -> list[str]:
    """Return a command line on a machine that is no node."""
    # kubectl sends a token over TLS alone.
    stage.server.tokens.add("")
    config = str(stage.server.kubeconfig(folder))
    return ["explain", WANTED, "--kubeconfig", config]


@pytest.mark.parametrize("plugin", [True, False])
def test_from_elsewhere_kubectl_leads_to_the_agent(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    plugin: bool,
) -> None:
    use_kubectl(tmp_path, monkeypatch)
    monkeypatch.setenv("GPUGAUGE_NODE_NAME", "laptop")
    if plugin:
        as_plugin(monkeypatch)
    no_device_inside(stage)
    stage.others.append(agent_pod())
    server = served(stage)
    forwards = stage.server.forwards
    forwards.ports = {("monitoring", "gauge-x7f2p", 9836): server.port}
    line = elsewhere(stage, tmp_path)
    try:
        assert main(line) == 1
        assert "container main has no NVIDIA device" in capsys.readouterr().out
        assert main(["explain", "train-0", "-n", "ml", *line[2:]]) == 1
        assert "container main has no NVIDIA device" in capsys.readouterr().out
        assert main(["explain", "--node", objects.NODE, *line[2:]]) == 0
        assert capsys.readouterr().out.startswith(f"node {objects.NODE}\n")
        if plugin:
            assert main(["explain", *line[2:], "--node"]) == 2
    finally:
        server.close()
    until(lambda: forwards.open_now == 0)


@pytest.mark.parametrize(
    ("kubectl", "agent", "why"),
    [
        (None, True, "kubectl could not be started"),
        ("exit 1", True, "kubectl says: nothing, and failed"),
        ("echo hello", True, "answer of kubectl is no JSON"),
        ("real", True, "port 9836: connection refused"),
        ("real", False, "no agent of gpugauge runs on the node gpu-node-1"),
    ],
)
def test_without_a_way_to_the_agent_the_rest_is_told(
    stage: Stage,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kubectl: str | None,
    agent: bool,
    why: str,
) -> None:
    use_kubectl(tmp_path, monkeypatch)
    monkeypatch.setenv("GPUGAUGE_NODE_NAME", "laptop")
    stage.others += [agent_pod()] if agent else []
    stage._publish()
    stage.server.forwards.ports = {}
    line = elsewhere(stage, tmp_path)
    if kubectl != "real":
        stage.write(tmp_path / "bin/kubectl", f"#!/bin/sh\n{kubectl}\n").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    if kubectl is None:
        (tmp_path / "bin/kubectl").unlink()
    assert main([*line, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    seen = {a["seen"] for step in told["steps"] for a in step["answers"]}
    assert any(why in one for one in seen), seen
    green = {step["layer"] for step in told["steps"] if step["verdict"] == "ok"}
    assert green <= {"spec", "scheduling"}
