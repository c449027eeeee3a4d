"""Pods that are not there, sources that refuse: the walk goes on, and shows no unchecked green."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from gpugauge.attribution.api_server import ApiServer
from gpugauge.errors import UnavailableError
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.report import Layer, Report, Verdict
from gpugauge.explain.text import report_text
from gpugauge.explain.walk import walk
from tests.explain import objects
from tests.explain.cases import the_pod
from tests.explain.stage import CLASSES, COLLECTIONS, DAEMON_SETS, SLICES, Stage
from tests.k8s.fakes.api_server import EVENTS, NODES, PODS


def verdicts(report: Report) -> dict[Layer, Verdict]:
    return {step.layer: step.verdict for step in report.steps}


def green(report: Report) -> set[Layer]:
    return {step.layer for step in report.steps if step.verdict is Verdict.OK}


def test_a_pod_that_does_not_exist(stage: Stage) -> None:
    stage.pod = None
    report = stage.explain()
    assert report.conclusion == "The request stops at spec: there is no such pod: ml/train-0."
    assert green(report) == set()


def test_an_evicted_pod(stage: Stage) -> None:
    the_pod(stage)["status"] = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
    report = stage.explain()
    assert report.broken == "allocation"
    assert verdicts(report)[Layer.PROCESS] is Verdict.NOT_SEEN
    assert verdicts(report)[Layer.WORK] is Verdict.NOT_SEEN


def test_a_pod_without_a_gpu_request(stage: Stage) -> None:
    the_pod(stage)["spec"]["containers"] = [objects.container(gpus=0)]
    stage.no_devices_inside()
    stage.kubelet.given = []
    report = stage.explain()
    assert report.broken == ""
    assert report.conclusion == "ml/train-0 asks for no GPU: there is no request to follow."
    assert green(report) <= {Layer.SPEC, Layer.SCHEDULING}


def test_a_pod_on_another_node(stage: Stage) -> None:
    the_pod(stage)["spec"]["nodeName"] = "gpu-node-9"
    report = stage.explain()
    assert report.broken == ""
    assert verdicts(report)[Layer.DRIVER] is Verdict.NOT_SEEN
    assert "it runs on gpu-node-9, whose agent was not asked" in report_text(report)
    assert Layer.DRIVER not in green(report)
    assert report.node == "gpu-node-9"


def test_a_completed_pod(stage: Stage) -> None:
    the_pod(stage)["status"] = {
        "phase": "Succeeded",
        "containerStatuses": [objects.ended("main", 0)],
    }
    stage.kubelet.given = []
    report = stage.explain()
    assert report.broken == ""
    assert verdicts(report)[Layer.ALLOCATION] is Verdict.NOT_SEEN
    assert verdicts(report)[Layer.RUNTIME] is Verdict.NOT_SEEN


def test_an_api_server_that_refuses_everything(stage: Stage) -> None:
    stage.server.forbidden = set(COLLECTIONS)
    report = stage.explain()
    assert report.broken == ""
    assert verdicts(report)[Layer.SPEC] is Verdict.NOT_SEEN
    assert verdicts(report)[Layer.WORK] is Verdict.NOT_SEEN
    # This node's kubelet lists the pod, so its layers were looked at all the same.
    assert verdicts(report)[Layer.DRIVER] is Verdict.OK
    assert "this account may not get pods (HTTP 403)" in report.conclusion


def test_no_way_to_an_api_server(stage: Stage) -> None:
    def connect() -> ApiServer:
        raise UnavailableError("No way to the API server was found.", "Give --kubeconfig.")

    report = stage.explain(connect=connect)
    assert report.broken == ""
    assert verdicts(report)[Layer.SPEC] is Verdict.NOT_SEEN
    assert verdicts(report)[Layer.DRIVER] is Verdict.OK
    assert "no way to the API server was found" in report.conclusion


@pytest.mark.parametrize("fault", [500, "reset", "malformed", "cut"])
def test_answers_that_break_off(stage: Stage, fault: int | str) -> None:
    """Lists fail, single objects are read: the pod is followed without its surroundings."""
    for path in (EVENTS, PODS, SLICES, DAEMON_SETS):
        stage.server.fail(path, "list", fault, times=1)
    stage.server.fail(PODS, "list", fault, times=2)
    stage._publish()
    stage.server.faults[(PODS, "list")].appendleft("")  # the pod itself is read first
    evidence = stage.evidence()
    stage.server.faults.clear()
    assert evidence.pod is not None
    assert evidence.events is None and evidence.slices is None
    assert evidence.why("events")
    report = walk(evidence)
    assert report.broken == ""
    assert verdicts(report)[Layer.WORK] is Verdict.OK


def test_where_neither_api_server_nor_kubelet_know_the_pod(stage: Stage) -> None:
    stage.server.forbidden = set(COLLECTIONS)
    stage.kubelet.given = []
    report = stage.explain()
    assert green(report) == set()
    assert report.broken == ""
    assert "this account may not get pods (HTTP 403)" in report.conclusion


def test_optional_rights_are_optional(stage: Stage) -> None:
    """Pods alone, as attribution needs them: what the rest would show is told as not seen."""
    stage.server.forbidden = {EVENTS, NODES, CLASSES, SLICES, DAEMON_SETS}
    report = stage.explain()
    told = {answer.seen for step in report.steps for answer in step.answers}
    assert report.broken == ""
    assert verdicts(report)[Layer.SPEC] is Verdict.NOT_SEEN
    assert "this account may not get runtimeclasses (HTTP 403)" in told
    assert "this account may not get nodes (HTTP 403)" in told
    assert verdicts(report)[Layer.RUNTIME] is Verdict.OK
    assert verdicts(report)[Layer.DRIVER] is Verdict.OK
    assert verdicts(report)[Layer.WORK] is Verdict.OK


def test_a_kubelet_that_is_down(stage: Stage) -> None:
    stage.kubelet.stop(keep_socket=True)
    report = stage.explain()
    assert verdicts(report)[Layer.ALLOCATION] is Verdict.NOT_SEEN
    assert "kubelet does not answer" in report_text(report)


def test_no_agent(stage: Stage) -> None:
    stage.agent_error = "no agent answers at 127.0.0.1:9836 (Connection refused)"
    report = stage.explain()
    assert verdicts(report)[Layer.PROCESS] is Verdict.NOT_SEEN
    assert verdicts(report)[Layer.WORK] is Verdict.NOT_SEEN
    assert "no agent answers" in report.conclusion


Hide = Callable[[Evidence], Evidence]
SOURCES = [
    f.name
    for f in fields(Evidence)
    if getattr(Evidence(), f.name) is None and f.name != "runtime_handler"
]
USES = {
    Layer.SPEC: ("pod",),
    Layer.SCHEDULING: ("pod",),
    Layer.PLUGIN: ("node", "kubelet", "allocatable"),
    Layer.ALLOCATION: ("pod", "allocations"),
    Layer.RUNTIME: ("pod", "containers"),
    Layer.DRIVER: ("driver", "inventory", "log"),
    Layer.PROCESS: ("pod", "containers", "processes"),
    Layer.WORK: ("pod", "containers", "processes"),
}
"""Without any of these a layer was not checked, whatever else was seen."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, cluster: object) -> Evidence:
    from tests.k8s.fakes.api_server import FakeApiServer
    from tests.k8s.fakes.kubelet import FakeKubelet

    assert isinstance(cluster, FakeApiServer)
    folder = tmp_path_factory.mktemp("whole")
    with FakeKubelet(folder / "kubelet") as kubelet:
        return Stage(folder, cluster, kubelet).evidence()


@pytest.mark.parametrize("count", [1, 2, len(SOURCES) // 2, len(SOURCES) - 1, len(SOURCES)])
def test_never_a_green_step_that_was_not_checked(whole: Evidence, count: int) -> None:
    assert len(green(walk(whole))) == len(Layer)
    for number, hidden in enumerate(itertools.combinations(SOURCES, count)):
        if number % 97 and count > 2:
            continue
        gone = dict.fromkeys(hidden)
        missing = {name: f"{name} was hidden" for name in hidden}
        report = walk(replace(whole, missing=missing, **gone))
        assert report.broken == "", report_text(report)
        for layer in green(report):
            assert not set(USES[layer]) & set(hidden), report_text(report)
        for step in report.steps:
            assert step.answers
            if step.verdict is Verdict.NOT_SEEN:
                assert all(one.seen for one in step.answers)


def test_lists_come_in_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpugauge.attribution import request_path_reader

    monkeypatch.setattr(request_path_reader, "PAGE_ITEMS", 7)
    stage.others += [objects.pod(f"other-{number}") for number in range(23)]
    evidence = stage.evidence()
    assert evidence.node_pods is not None
    assert len(evidence.node_pods) == 2 + 23
    pages = [p for path, p in stage.server.requests if path == PODS and p.get("limit") == "7"]
    assert len(pages) == 4
