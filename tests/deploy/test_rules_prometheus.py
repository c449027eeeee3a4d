"""A real Prometheus takes the shipped scrape configurations and rules, honouring labels or not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpugauge.export.exposition import Exposition
from gpugauge.model.workload import Owner, Scope
from gpugauge.settings import PriceSettings, SeriesSettings
from tests.deploy.exporter import exporter
from tests.deploy.prometheus import Prometheus, started_with
from tests.deploy.promql import ROOT, recorded
from tests.deploy.rules_files import PROMTOOL, alerts
from tests.k8s.fakes.waiting import until
from tests.support.snapshots import GPU_B, busy_snapshot, operations, series

EXAMPLES = ROOT / "deploy" / "prometheus"
POD = {
    "__meta_kubernetes_namespace": "monitoring",
    "__meta_kubernetes_pod_name": "gpugauge-x7k2p",
    "__meta_kubernetes_pod_container_name": "agent",
    "__meta_kubernetes_pod_container_port_name": "metrics",
    "__meta_kubernetes_pod_node_name": "node-a",
    "__meta_kubernetes_pod_label_app_kubernetes_io_name": "gpugauge",
}
"""What Prometheus learns of the agent's pod: its service discovery is no part of this test."""
STRANGER = POD | {"__meta_kubernetes_pod_label_app_kubernetes_io_name": "web"}
SETTINGS = {"honoured": "scrape.yaml", "relabelled": "scrape-relabeled.yaml"}


def exposition() -> Exposition:
    """Return pods, a container without one, and a process of the host."""
    loose = Owner(Scope.CONTAINER, container="0123456789ab", container_id="0123456789ab")
    whole = busy_snapshot()
    extra = series(loose, GPU_B, operations=operations(LAUNCH=7))
    made = Exposition(SeriesSettings(per_owner=1000), price=PriceSettings(per_gpu_hour={"*": 3.5}))
    made.publish(replace(whole, series=(*whole.series, extra)))
    return made


def configuration(name: str, port: int) -> dict[str, Any]:
    """Return a shipped configuration, with two pods of loopback in place of Kubernetes."""
    shipped: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    shipped["global"] |= {
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "evaluation_interval": "1s",
    }
    shipped["rule_files"] = [str((EXAMPLES / each).resolve()) for each in shipped["rule_files"]]
    (job,) = shipped["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    job["static_configs"] = [
        {"targets": [f"127.0.0.1:{port}"], "labels": POD},
        {"targets": ["127.0.0.1:1"], "labels": STRANGER},
    ]
    return shipped


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Prometheus]]:
    folder = tmp_path_factory.mktemp("rules")
    with exporter(exposition().text()) as port:
        renamed = configuration(SETTINGS["relabelled"], port)
        del renamed["scrape_configs"][0]["metric_relabel_configs"]
        settings = {name: configuration(file, port) for name, file in SETTINGS.items()}
        settings["renamed"] = renamed
        with ExitStack() as stack:
            yield {
                name: stack.enter_context(started_with(folder / name, each))
                for name, each in settings.items()
            }


def stored(server: Prometheus) -> dict[frozenset[tuple[str, str]], str]:
    """Return the series of the agent, as Prometheus keeps them, and their values."""
    return {
        frozenset(line["metric"].items()): line["value"][1]
        for line in server.query('{__name__=~"gpugauge_.+"}')
    }


@pytest.mark.parametrize("name", SETTINGS.values())
def test_promtool_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    assert PROMTOOL.exists(), "make tools"
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump(configuration(name, 9836)))
    done = subprocess.run(
        [PROMTOOL, "check", "config", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(recorded())} rules found" in done.stdout
    assert f"{len(alerts())} rules found" in done.stdout


def test_both_configurations_keep_the_same_series(servers: Mapping[str, Prometheus]) -> None:
    for name in SETTINGS:
        until(lambda name=name: stored(servers[name]), seconds=30)
    one, other = (stored(servers[name]) for name in SETTINGS)
    assert one.keys() == other.keys()
    assert one == other
    owners = {
        tuple(dict(labels).get(name, "") for name in ("scope", "namespace", "pod"))
        for labels in one
        if dict(labels)["__name__"] == "gpugauge_launches_total"
    }
    assert ("pod", "ml", "train-0") in owners
    assert ("host", "", "") in owners, "a process of the host carries the agent's pod"
    assert ("container", "", "") in owners
    about_itself = [dict(labels) for labels in one if ("__name__", "gpugauge_agent_up") in labels]
    assert [(each["pod"], each["node"]) for each in about_itself] == [("gpugauge-x7k2p", "node-a")]


def test_a_scrape_that_puts_the_agent_in_the_place_of_the_pods_is_told(
    servers: Mapping[str, Prometheus],
) -> None:
    alert = alerts()["GpugaugeLabelsRenamed"].expr
    until(lambda: servers["renamed"].query(alert), seconds=30)
    for name in SETTINGS:
        until(lambda name=name: stored(servers[name]), seconds=30)
        assert servers[name].query(alert) == []


@pytest.mark.parametrize("name", SETTINGS)
def test_every_rule_is_evaluated_without_an_error(
    servers: Mapping[str, Prometheus], name: str
) -> None:
    server = servers[name]

    def rules() -> list[dict[str, Any]]:
        return [rule for group in server.ask("rules")["groups"] for rule in group["rules"]]

    until(lambda: all(rule["health"] != "unknown" for rule in rules()), seconds=30)
    assert {rule["name"] for rule in rules()} == {*recorded(), *alerts()}
    assert [rule for rule in rules() if rule["health"] != "ok"] == []


@pytest.mark.parametrize("name", SETTINGS)
def test_a_workload_a_namespace_and_a_node_have_their_numbers(
    servers: Mapping[str, Prometheus], name: str
) -> None:
    server = servers[name]
    held = "gpugauge_memory_held_bytes:sum"
    until(lambda: server.query(f"node:{held}"), seconds=30)
    total = sum(float(line["value"][1]) for line in server.query("gpugauge_memory_held_bytes"))
    for level in ("namespace_workload", "namespace", "node"):
        lines = server.query(f"{level}:{held}")
        assert sum(float(line["value"][1]) for line in lines) == total, level
    assert [line["metric"]["node"] for line in server.query(f"node:{held}")] == [
        line["metric"]["node"] for line in server.query("gpugauge_agent_info")
    ]
    until(lambda: server.query("node:gpugauge_cost_per_hour:sum"), seconds=30)
    devices = float(server.query("node:gpugauge_devices:count")[0]["value"][1])
    (cost,) = server.query("node:gpugauge_cost_per_hour:sum")
    assert (cost["metric"]["currency"], float(cost["value"][1])) == ("USD", devices * 3.5)
