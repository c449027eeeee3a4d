"""What the chart gives to Prometheus and Grafana, tried with a real Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.deploy.chart import CHART, RELEASE, Object, render
from tests.deploy.exporter import exporter
from tests.deploy.prometheus import Prometheus, started_with
from tests.k8s.fakes.waiting import until
from tests.support.golden import golden_text

TARGET = {"namespace": "gpugauge", "pod": "gpugauge-x7k2p", "container": "agent", "job": "gpugauge"}
"""Labels that the Prometheus Operator gives to a target of a PodMonitor."""
MONITORS = {"podMonitor": "podMetricsEndpoints", "serviceMonitor": "endpoints"}
SNAKE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def endpoint(monitor: str, **values: object) -> Object:
    """Return the only endpoint of a monitor."""
    given = {f"{monitor}.{name}": value for name, value in ({"enabled": True} | values).items()}
    kind = monitor[0].upper() + monitor[1:]
    (found,) = render(given).one(kind)["spec"][MONITORS[monitor]]
    return found


def scrape(job: str, found: Object, port: int) -> Object:
    """Return the scrape configuration that the Prometheus Operator writes for an endpoint."""
    relabelings = found.get("metricRelabelings", [])
    return {
        "job_name": job,
        "metrics_path": found["path"],
        "honor_labels": found["honorLabels"],
        "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": TARGET}],
        "metric_relabel_configs": [
            {SNAKE.sub("_", key).lower(): value for key, value in one.items()}
            for one in relabelings
        ],
    }


@pytest.fixture(scope="module")
def exposition() -> Iterator[int]:
    with exporter(golden_text().encode()) as port:
        yield port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, exposition: int) -> Iterator[Prometheus]:
    jobs = {
        "honoured": endpoint("podMonitor"),
        "put-back": endpoint("podMonitor", honorLabels=False),
        "lost": endpoint("podMonitor", honorLabels=False) | {"metricRelabelings": []},
    }
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [scrape(job, found, exposition) for job, found in jobs.items()],
    }
    for one in settings["scrape_configs"]:
        labels = one["static_configs"][0]["labels"]
        one["static_configs"][0]["labels"] = labels | {"job": "gpugauge", "way": one["job_name"]}
    with started_with(tmp_path_factory.mktemp("prometheus"), settings) as started:
        until(lambda: all(_series(started, job) for job in jobs), seconds=60)
        yield started


def _series(server: Prometheus, way: str) -> set[tuple[tuple[str, str], ...]]:
    """Return the labels of all series of a way to scrape."""
    found = server.query(f'{{__name__=~"gpugauge_.*", way="{way}"}}')
    return {tuple(sorted(one["metric"].items() - {("way", way)})) for one in found}


def test_labels_that_are_put_back_are_those_that_are_honoured(server: Prometheus) -> None:
    honoured = _series(server, "honoured")
    assert honoured == _series(server, "put-back")
    whose = {(dict(one).get("namespace"), dict(one).get("pod")) for one in honoured}
    assert whose >= {("ml", "train-0"), ("web", "serve-1")}
    assert len(honoured) > 200


def test_without_either_numbers_carry_the_agents_own_pod(server: Prometheus) -> None:
    """So that the test above can fail."""
    lost = [dict(one) for one in _series(server, "lost")]
    assert all(one["pod"] == TARGET["pod"] for one in lost)
    assert any(one.get("exported_pod") == "train-0" for one in lost)


def test_a_process_of_the_host_has_no_pod_even_then(server: Prometheus) -> None:
    host = [dict(one) for one in _series(server, "put-back") if ("scope", "host") in one]
    assert host and not any({"pod", "namespace", "container"} & one.keys() for one in host)


def test_every_sample_with_a_pod_has_a_scope() -> None:
    """By it the labels are put back."""
    for line in golden_text().splitlines():
        if 'pod="' in line and not line.startswith("#"):
            assert 'scope="' in line, line


@pytest.mark.parametrize("monitor", MONITORS)
def test_both_monitors_find_the_agents(monitor: str) -> None:
    rendered = render({f"{monitor}.enabled": True, "canary.enabled": True})
    (spec,) = [one["spec"] for one in rendered.objects if one["kind"].lower() == monitor.lower()]
    assert spec["namespaceSelector"] == {"matchNames": ["gpugauge"]}
    assert spec["jobLabel"] == "app.kubernetes.io/name"
    wanted = spec["selector"]["matchLabels"].items()
    if monitor == "podMonitor":
        pods = [one["spec"]["template"]["metadata"] for one in rendered.all("DaemonSet")]
        assert len(pods) == 2 and all(wanted <= one["labels"].items() for one in pods)
        assert all(rendered.container(n)["ports"][0]["name"] == "metrics" for n in ("gpugauge",))
    else:
        service = rendered.one("Service")
        assert wanted <= service["metadata"]["labels"].items()
        assert service["spec"]["ports"][0]["name"] == "metrics"
    (found,) = spec[MONITORS[monitor]]
    assert (found["port"], found["honorLabels"]) == ("metrics", True)
    assert "metricRelabelings" not in found


@pytest.mark.parametrize("monitor", MONITORS)
def test_relabelings_of_ones_own_come_last(monitor: str) -> None:
    own = [{"regex": "gpu", "action": "labeldrop"}]
    assert endpoint(monitor, metricRelabelings=own)["metricRelabelings"] == own
    both = endpoint(monitor, metricRelabelings=own, honorLabels=False)["metricRelabelings"]
    assert both[-1:] == own and len(both) == 5


def test_the_rules_are_those_of_the_files() -> None:
    groups = render({"prometheusRule.enabled": True}).one("PrometheusRule")["spec"]["groups"]
    files = sorted((CHART / "rules").glob("*.yaml"))
    wanted = [group for path in files for group in yaml.safe_load(path.read_text())["groups"]]
    assert groups == wanted and len(wanted) > 1


def test_runbooks_lead_where_the_value_says() -> None:
    base = "https://wiki.example/gpugauge/alerts"
    values = {"prometheusRule": {"enabled": True, "runbookBase": base}}
    groups = render(values).one("PrometheusRule")["spec"]["groups"]
    urls = [
        rule["annotations"]["runbook_url"] for g in groups for rule in g["rules"] if "alert" in rule
    ]
    assert urls and all(url.startswith(f"{base}#") for url in urls)


def test_the_dashboards_are_those_of_the_files() -> None:
    rendered = render({"grafanaDashboards.enabled": True, "grafanaDashboards.labelValue": "yes"})
    boards = [
        one for one in rendered.all("ConfigMap")
        if one["metadata"]["labels"].get("grafana_dashboard") == "yes"
    ]  # fmt: skip
    held = {name: text for one in boards for name, text in one["data"].items()}
    files = {f"gpugauge-{path.name}": path for path in (CHART / "dashboards").glob("*.json")}
    assert held.keys() == files.keys() and len(files) > 1
    for name, path in files.items():
        assert json.loads(held[name]) == json.loads(path.read_text())
    # The API server refuses an object above 1 MiB; client-side apply, an annotation above 256 KiB.
    assert all(len(json.dumps(one)) < 256 << 10 for one in boards)


def test_nothing_of_the_operator_is_made_unasked() -> None:
    kinds = {one["kind"] for one in render().objects}
    assert not kinds & {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    assert len(render().all("ConfigMap")) == 1
    assert RELEASE in render().text
