"""The rules are right by Prometheus itself, and each was seen to hold and to stay silent."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpugauge.diagnosis.rules import RULES as DIAGNOSIS
from tests.deploy.promql import FOREIGN, OWN, RULES, check, recorded
from tests.deploy.rules_files import (
    PROMTOOL,
    UNIT_TESTS,
    Alert,
    alerts,
    cases,
    groups,
    names_in,
)

INFORMATION_ONLY = {"gpu_saturated", "launch_bound", "held_above_requested"}
"""Findings that show no harm, whatever the numbers: docs/rules.md."""
TARGET = {"namespace", "pod", "container"}
"""Labels of the agent's own pod, on what it says about itself."""
LEVELS = {
    "instance": {"job", "instance", "node"},
    "node": {"node"},
    "node_gpu_uuid": {"node", "gpu_uuid"},
    "node_namespace_workload_gpu_uuid": {"node", "namespace", "workload", "scope", "gpu_uuid"},
    "namespace": {"namespace", "scope"},
    "namespace_workload": {"namespace", "workload", "scope"},
}
PARTS = {"cause", "state", "direction", "family", "currency"}
"""What a level may be divided by besides."""
DURATIONS = {"0m", "1m", "5m", "10m", "15m", "30m", "1h"}


def by_name(alert: Alert) -> str:
    return alert.name


def promtool(*words: str | Path) -> str:
    """Return what promtool says, which is an error if it finds a fault."""
    assert PROMTOOL.exists(), "make tools"
    done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["recording", "alerts"])
def test_promtool_accepts_the_file(name: str) -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES / f"{name}.yaml")
    assert f"{sum(len(group['rules']) for group in groups(name))} rules found" in said


@pytest.mark.parametrize("path", sorted(UNIT_TESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_unit_tests_of_promtool(path: Path) -> None:
    promtool("test", "rules", path)


# ---- that nothing is without a test ------------------------------------------


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "bad"])
@pytest.mark.parametrize("name", recorded())
def test_a_recorded_series_has_both_cases(name: str, healthy: bool) -> None:
    reading = [
        case
        for case in cases()
        if case.healthy is healthy and any(name in names_in(query) for query in case.queries)
    ]
    assert reading, f"{name} is asked for in no {'healthy' if healthy else 'bad'} case"
    if healthy:
        given = [
            some for case in reading for q, some in case.queries.items() if name in names_in(q)
        ]
        assert any(given), f"no healthy case expects a value of {name}"


@pytest.mark.parametrize("alert", alerts().values(), ids=by_name)
def test_an_alert_has_both_cases(alert: Alert) -> None:
    fires = [case for case in cases() if any(case.fires.get(alert.name, ()))]
    assert any(not case.healthy for case in fires), "no bad case in which it fires"
    if alert.wait != "0m":
        assert any(0 in case.fires[alert.name] for case in fires), "nothing shows that it waits"
    # Silent not for lack of data: the healthy case has every series that the alert reads.
    read = {name for name in names_in(alert.expr) if name not in recorded()}
    silent = [
        case
        for case in cases()
        if case.healthy and alert.name in case.fires and not any(case.fires[alert.name])
    ]
    assert any(read <= case.inputs for case in silent), f"no healthy case feeds all of {read}"


def test_no_case_is_about_what_does_not_exist() -> None:
    known = {*OWN, *FOREIGN}
    for case in cases():
        assert set(case.fires) <= set(alerts()), case.name
        assert case.inputs <= known, (case.name, case.inputs - known)
        assert case.name.startswith(("healthy: ", "bad: ")), case.name


# ---- names, labels and texts -------------------------------------------------


@pytest.mark.parametrize("name", recorded())
def test_names_say_level_metric_and_operations(name: str) -> None:
    level, metric, operations = name.split(":")
    labels = check(recorded()[name]).labels - PARTS - {"cluster"}
    assert labels == LEVELS[level], f"{name} has the labels {sorted(labels)}"
    assert "cluster" in check(recorded()[name]).labels, "clusters would be mixed"
    assert re.fullmatch(r"gpugauge_[a-z_]+", metric)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*([0-9]+m)?", operations)
    assert ("_per_process_seconds" in metric) == operations.startswith("ratio_")


def test_every_level_has_the_same_series() -> None:
    by_level: dict[str, set[str]] = {}
    for name in recorded():
        level, _, rest = name.partition(":")
        by_level.setdefault(level, set()).add(rest)
    whole = {"gpugauge_devices:count", "gpugauge_cost_per_hour:sum"}
    assert by_level["namespace"] == by_level["namespace_workload"]
    assert by_level["node"] == by_level["namespace_workload"] | whole


@pytest.mark.parametrize("alert", alerts().values(), ids=by_name)
def test_queries_of_alerts_make_sense(alert: Alert) -> None:
    check(alert.expr)
    assert names_in(alert.expr) <= {*OWN, *FOREIGN, *recorded()}


@pytest.mark.parametrize("alert", alerts().values(), ids=by_name)
def test_an_alert_says_what_a_person_needs(alert: Alert) -> None:
    assert alert.name.startswith("Gpugauge")
    assert alert.wait in DURATIONS
    if alert.group == "gpugauge.findings" or alert.name == "GpugaugeIdleHolder":
        assert alert.labels == {"severity": "{{ $labels.severity }}"}
        assert 'severity=~"warning|critical"' in alert.expr
        shown = {"namespace", "pod", "container", "workload", "node", "gpu_uuid"}
    else:
        assert alert.labels["severity"] in {"warning", "info"}
        shown = set()
    text = alert.annotations["summary"] + alert.annotations["description"]
    used = set(re.findall(r"\$labels\.(\w+)", " ".join((text, alert.annotations["dashboard"]))))
    assert shown <= used
    own = TARGET if alert.group == "gpugauge.agent" else set()
    assert used - {"cluster"} <= check(alert.expr).labels | own
    assert alert.annotations["summary"].endswith(".")
    assert "Next: " in alert.annotations["description"]
    assert set(alert.annotations) == {"summary", "description", "dashboard", "runbook_url"}


@pytest.mark.parametrize("alert", alerts().values(), ids=by_name)
def test_queries_inside_texts_make_sense(alert: Alert) -> None:
    for found in re.findall(r"printf `([^`{]+)\{([^}`]*)\}`", " ".join(alert.annotations.values())):
        query = f"{found[0]}{{{found[1].replace('%q', chr(34) + 'x' + chr(34))}}}"
        assert "{{ .Labels.currency }}" in alert.annotations["description"]
        assert "currency" in check(query).labels


def test_every_finding_that_shows_harm_has_an_alert_and_no_other() -> None:
    asked = re.findall(
        r'gpugauge_finding\{rule="(\w+)"', " ".join(a.expr for a in alerts().values())
    )
    assert sorted(asked) == sorted({rule.id for rule in DIAGNOSIS} - INFORMATION_ONLY)


def test_alerts_on_findings_differ_by_the_rule_only() -> None:
    """What the unit tests show of one, of clusters, gaps and restarts, is so for all."""
    shapes = set()
    for alert in alerts().values():
        if found := re.search(r'rule="(\w+)"', alert.expr):
            shapes.add(alert.expr.replace(found[0], ""))
            assert alert.name == "Gpugauge" + found[1].title().replace("_", "")
    assert len(shapes) == 1


@pytest.mark.parametrize(
    "query",
    [*recorded().values(), *(alert.expr for alert in alerts().values())],
    ids=[*recorded(), *alerts()],
)
def test_clusters_are_never_mixed(query: str) -> None:
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        assert labels.split(", ")[0] == "cluster", labels
    assert "ignoring" not in query and "without" not in query


def test_counters_that_lose_nothing_are_the_only_ones_left_out() -> None:
    reasons = re.search(r'reason!~"([\w|]+)"', alerts()["GpugaugeLostUpdates"].expr)
    assert reasons
    assert set(reasons[1].split("|")) == {"state_contended", "depth"}
    meaning = OWN["gpugauge_agent_lost_updates_total"].meaning
    for reason in reasons[1].split("|"):
        assert f"`{reason}`" in meaning
