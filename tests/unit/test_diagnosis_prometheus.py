"""A cluster by PromQL: what the exporter really writes is enough to name a cause."""

import json
import random
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpugauge.cli.diagnose import source
from gpugauge.diagnosis import prometheus
from gpugauge.diagnosis.exported import METRICS
from gpugauge.diagnosis.prometheus import cluster_snapshots
from gpugauge.errors import ForeignDataError, GpugaugeError, UnavailableError
from gpugauge.export.exposition import Exposition
from gpugauge.export.metrics import METRICS as TABLE
from gpugauge.settings import SeriesSettings, Settings
from tests.incidents import programs
from tests.incidents.node import Node
from tests.incidents.seen import BEGAN_UNIX_NS

Series = dict[str, dict[tuple[tuple[str, str], ...], list[tuple[float, str]]]]
BEGAN = BEGAN_UNIX_NS / 1e9


class FakePrometheus:
    """Scrapes expositions of nodes in virtual time and answers query_range."""

    def __init__(self) -> None:
        self.series: Series = {}

    def scrape(self, exposition: Exposition, node: str, at_seconds: float) -> None:
        for family in text_string_to_metric_families(exposition.text().decode()):
            for sample in family.samples:
                labels = tuple(sorted((sample.labels | {"instance": node}).items()))
                points = self.series.setdefault(sample.name, {}).setdefault(labels, [])
                points.append((at_seconds, repr(sample.value)))

    def fetch(self, url: str) -> bytes:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
        start, end = float(query["start"][0]), float(query["end"][0])
        result = [
            {"metric": dict(labels), "values": [p for p in points if start <= p[0] <= end]}
            for labels, points in self.series.get(query["query"][0], {}).items()
        ]
        return json.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": result}}
        ).encode()


def scraped(nodes: dict[str, Callable[[Node], None]], seconds: float, change_at: float) -> (
    FakePrometheus
):  # fmt: skip
    server = FakePrometheus()
    for name, change in nodes.items():
        node = Node(random.Random(3), dt=15.0)
        node.start("train-0", programs.training(random.Random(5), gpu_s=0.02, loader_s=0.01))
        exposition = Exposition(SeriesSettings(launch_threads=True))
        changed = False
        while node.elapsed_s < seconds:
            if node.elapsed_s >= change_at and not changed:
                change(node)
                changed = True
            exposition.publish(node.tick())
            server.scrape(exposition, name, BEGAN + node.elapsed_s)
    return server


def test_a_noisy_neighbour_is_named_on_its_node_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def crowd(node: Node) -> None:
        node.start("batch-0", programs.batch(random.Random(7)))

    server = scraped({"node-a:9836": crowd, "node-b:9836": lambda _: None}, 900, 750)
    monkeypatch.setattr(prometheus, "_get", server.fetch)
    seen = source.from_prometheus("http://p:9090", Settings(), 300, BEGAN + 900)
    (found,) = [f for f in seen.findings if f.rule == "noisy_neighbour"]
    assert (found.node, found.owner and found.owner.pod) == ("node-a:9836", "train-0")
    assert [party.owner.pod for party in found.parties] == ["batch-0"]
    assert not [f for f in seen.findings if f.node == "node-b:9836" and f.severity != "info"]
    assert any("not exported" in note for note in seen.notes)


def test_every_metric_that_is_asked_for_is_exported() -> None:
    exported = {metric.name for metric in TABLE}
    assert [name for name in METRICS if name not in exported] == []


def test_totals_survive_the_way_through_the_exposition() -> None:
    server = scraped({"node-a": lambda _: None}, 75, 999)
    (snapshots,) = cluster_snapshots("http://p", BEGAN + 75, 60, server.fetch).values()
    last = list(snapshots)[-1]
    node = Node(random.Random(3), dt=15.0)
    node.start("train-0", programs.training(random.Random(5), gpu_s=0.02, loader_s=0.01))
    truth = [node.tick() for _ in range(5)][-1]
    (mine,), (theirs,) = truth.series, last.series
    for slot, operation in mine.operations.items():
        assert theirs.operations[slot].calls == operation.calls
    assert theirs.blocked_ns == pytest.approx(
        {**dict.fromkeys(theirs.blocked_ns, 0), **mine.blocked_ns}, abs=2
    )
    assert theirs.known_idle_ns == pytest.approx(mine.known_idle_ns, abs=2)
    assert last.hosts[0].cpu_used_ns == pytest.approx(truth.hosts[0].cpu_used_ns, abs=2)


def test_a_prometheus_that_refuses_or_is_not_there_is_one_sentence() -> None:
    refused = json.dumps({"status": "error", "error": "query timed out"}).encode()
    with pytest.raises(UnavailableError, match="query timed out"):
        cluster_snapshots("http://p", 100, 60, lambda _: refused)
    with pytest.raises(ForeignDataError, match="not one of Prometheus"):
        cluster_snapshots("http://p", 100, 60, lambda _: b"<html>")
    with pytest.raises(UnavailableError, match="cannot be reached"):
        cluster_snapshots("http://127.0.0.1:1", 100, 60)
    with pytest.raises(UnavailableError, match="not an http"):
        cluster_snapshots("file:///etc/passwd", 100, 60)
    empty = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}})
    assert cluster_snapshots("http://p", 100, 60, lambda _: empty.encode()) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["status", "data", "result", "resultType", "metric", "values", "x"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_any_json_is_refused_or_read(answer: object) -> None:
    wrapped = {"status": "success", "data": {"resultType": "matrix", "result": answer}}
    for body in (answer, wrapped):
        try:
            nodes = cluster_snapshots("http://p", 100, 60, lambda _, b=body: json.dumps(b).encode())  # type: ignore[misc]
            for snapshots in nodes.values():
                list(snapshots)
        except GpugaugeError:
            pass


LABEL = st.sampled_from(["scope", "gpu_uuid", "cause", "direction", "op", "code", "family", "pod"])
POINT = st.tuples(
    st.integers(0, 10**9), st.sampled_from(["1", "nan", "inf", "-7", "1e308", "1e400"])
)


@given(st.lists(st.fixed_dictionaries(
    {"metric": st.dictionaries(LABEL, st.text(max_size=9)), "values": st.lists(POINT, max_size=3)}
), max_size=3))  # fmt: skip
def test_any_labels_and_values_become_snapshots(result: list[object]) -> None:
    body = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    for snapshots in cluster_snapshots("http://p", 100, 60, lambda _: body.encode()).values():
        list(snapshots)
