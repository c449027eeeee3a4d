"""A real Prometheus scrapes a real agent: every query of every dashboard returns data."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.deploy.boards import Query, annotations, boards, filled, queries, query_of, variables
from tests.deploy.exporter import exporter
from tests.deploy.prometheus import CLUSTER, Prometheus, prometheus
from tests.deploy.stage import others, stage
from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.whole import Cluster

RATE, BEFORE = "15s", "5s"
PRICE = 3.5
PATIENCE_SECONDS = 60
CHOSEN = {"namespace": "ml", "workload": "a-0-set", "pod": "a-0", "node": "node-a"}
"""What a person would choose in the variables of one value."""
NEIGHBOUR = {"workload": "b-0-set", "pod": "b-0"}
"""Panels about what `a-0` has no cause for, such as a GPU used and not given, have it here."""
ALL = "$__all"


@dataclass
class Live:
    """The server and who is on the node."""

    server: Prometheus
    cluster: Cluster

    def limit_cpu(self, quota_us: int) -> None:
        """Change the CPU limit of the first pod in place."""
        container = self.cluster.pods[0].container
        assert container is not None
        container.runc("update", "--cpu-quota", str(quota_us), container.id)


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    with (
        FakeApiServer() as api,
        FakeKubelet(folder / "kubelet") as kubelet,
        stage(folder, api, kubelet) as cluster,
        exporter(others(cluster).encode()) as port,
        prometheus(
            folder / "prometheus", {"gpugauge": cluster.agent.port, "others": port}
        ) as server,
    ):
        yield Live(server, cluster)


def options(server: Prometheus, variable: Mapping[str, object], chosen: Mapping[str, str]):
    """Return the options of a query variable, text and value, as Grafana finds them."""
    query = filled(query_of(variable), chosen)
    if found := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
        return [(each, each) for each in server.values(found[2], found[1])]
    inner = re.fullmatch(r"query_result\((.*)\)", query)
    assert inner, query
    pattern = str(variable["regex"]).strip("/").replace("(?<", "(?P<")
    result = []
    for line in server.query(inner[1]):
        labels = ",".join(f'{key}="{value}"' for key, value in sorted(line["metric"].items()))
        match = re.search(pattern, f"{{{labels}}}")
        assert match, labels
        result.append((match["text"], match["value"]))
    return result


def choose(server: Prometheus, board, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return a value for each variable, as a person would choose them from its options."""
    values = {
        "__rate_interval": RATE,
        "__interval_ms": "15000",
        "compare": BEFORE,
        "datasource": "x",
        "dcgm": "x",
    }
    for name, variable in variables(board).items():
        if variable["type"] != "query":
            continue
        found = [value for _, value in options(server, variable, values)]
        assert found, f"{board['title']}: nothing to choose for {name}"
        if variable["includeAll"]:
            # A regular expression inside a PromQL string: its backslashes are written twice.
            every = "|".join(re.escape(each).replace("\\", "\\\\") for each in found)
            values[name] = variable.get("allValue") or every
        else:
            values[name] = wanted.get(name, found[0])
            assert values[name] in found
    return values


def has_data(server: Prometheus, query: Query, values: Mapping[str, str]) -> bool:
    lines = server.query(filled(query.expr, values))
    return any(math.isfinite(float(line["value"][1])) for line in lines)


def without_data(live: Live, asked: list[Query]) -> list[Query]:
    """Return those that have no data, neither for the one pod nor for its neighbour."""
    left = asked
    for wanted in (CHOSEN, CHOSEN | NEIGHBOUR):
        values = {name: choose(live.server, board, wanted) for name, board in boards().items()}
        left = [each for each in left if not has_data(live.server, each, values[each.board])]
    return left


def test_every_query_returns_data(live):
    until_all_know(live)
    limits = itertools.cycle((40_000, 60_000))
    left = [
        each
        for name, board in boards().items()
        for each in (*queries(name, board), *annotations(name, board))
    ]
    end = time.monotonic() + PATIENCE_SECONDS
    while left := without_data(live, left):
        names = "\n".join(f"{each.name}: {each.expr}" for each in left)
        assert time.monotonic() < end, f"{len(left)} queries without data:\n{names}"
        live.limit_cpu(next(limits))


def until_all_know(live: Live) -> None:
    """Wait until Prometheus has met every pod."""
    end = time.monotonic() + PATIENCE_SECONDS
    while set(live.server.values("pod", "gpugauge_launches_total")) < {"a-0", "b-0", "idle-0"}:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_gpu_is_chosen_by_what_people_call_it(live):
    until_all_know(live)
    board = boards()["cluster"]
    values = choose(live.server, board, CHOSEN)
    found = options(live.server, variables(board)["gpu"], values)
    assert found == [("node-a 0 Simulated GPU", live.cluster.gpu_uuid)]
    assert values["cluster"] == CLUSTER


def lines_of(live: Live, board: str, title: str, ref: str = "A"):
    """Return labels and value of each line of one query of a panel."""
    found = boards()[board]
    values = choose(live.server, found, CHOSEN)
    (query,) = [q for q in queries(board, found) if (q.title, q.ref) == (title, ref)]
    answered = live.server.query(filled(query.expr, values))
    return [(line["metric"], float(line["value"][1])) for line in answered]


def until_shown(live: Live, board: str, title: str, shown, ref: str = "A"):
    """Wait until a query's lines are as they should be."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not shown(lines := lines_of(live, board, title, ref)):
        assert time.monotonic() < end, f"{board}, {title}: {lines}"
        time.sleep(0.2)


def only_value(wanted: float):
    return lambda lines: [value for _, value in lines] == [pytest.approx(wanted)]


def test_panels_tell_what_is(live):
    until_all_know(live)
    pods = {one.name for one in live.cluster.pods}
    until_shown(live, "cluster", "Shared GPUs", only_value(1))
    until_shown(live, "cluster", "Pods on GPUs", only_value(len(pods)))
    until_shown(live, "cluster", "GPU by GPU", only_value(PRICE), ref="H")
    until_shown(live, "workload", "Contention", only_value(len(pods)))
    until_shown(live, "workload", "Contention", only_value(2), ref="B")

    # Its neighbours work or hold; it is none of them.
    until_shown(
        live,
        "workload",
        "Demand of others on its GPUs",
        lambda lines: (
            {labels["pod"] for labels, _ in lines} == pods - {"a-0"}
            and {labels["pod"] for labels, value in lines if value > 0} == {"b-0"}
        ),
    )
    until_shown(
        live,
        "workload",
        "Time split",
        lambda lines: sum(value for _, value in lines) == pytest.approx(1, abs=0.02),
    )
    until_shown(
        live,
        "cluster",
        "Used but not given, given but not used",
        lambda lines: (
            {(labels["pod"], labels["kind"]) for labels, _ in lines} == {("b-0", "not_entitled")}
        ),
    )


def test_findings_are_shown_with_whom_they_are_about(live):
    def shown(lines):
        found = {(labels["pod"], labels["rule"]) for labels, _ in lines}
        return {("a-0", "out_of_memory"), ("idle-0", "idle_holder")} <= found

    until_shown(live, "cluster", "Findings that are open", shown)
