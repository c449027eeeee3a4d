"""The examples for autoscalers: their form, their queries, and what they scale on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from tests.deploy.promql import ROOT, Wrong, check, recorded
from tests.deploy.rules_files import names_in

EXAMPLES = ROOT / "deploy" / "prometheus"
SCHEMAS = Path(__file__).with_name("rules_schemas")
KUBERNETES = ("1.28", "1.32", "1.37")
UTILIZATION = "gpugauge_device_utilization_ratio"


def schema(name: str) -> Draft202012Validator:
    """Return one of our own schemas, itself checked."""
    found = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def objects(name: str) -> list[dict[str, Any]]:
    """Return the objects of an example."""
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def adapter_rules() -> list[dict[str, Any]]:
    """Return the rules inside the ConfigMap."""
    settings = yaml.safe_load(objects("adapter.yaml")[0]["data"]["config.yaml"])
    schema("adapter").validate(settings)
    return list(settings["externalRules"])


def filled(query: str, series: str, matchers: str) -> str:
    """Return a query as the adapter fills it in."""
    return query.replace("<<.Series>>", series).replace("<<.LabelMatchers>>", matchers)


def test_the_scaled_object_has_the_form_that_keda_takes() -> None:
    (one,) = objects("keda.yaml")
    schema("scaledobject").validate(one)
    spec = one["spec"]
    assert spec["minReplicaCount"] < spec["maxReplicaCount"]
    # Back pressure says nothing of a service without a process: it can not wake one up.
    assert spec["minReplicaCount"] >= 1
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] > 300, "shorter than what the rule averages over"


@pytest.mark.parametrize(
    "path", [("spec", "trigers"), ("spec", "fallback", "replica"), ("spec", "minReplicas")]
)
def test_the_schema_refuses_a_misspelt_field(path: tuple[str, ...]) -> None:
    (one,) = objects("keda.yaml")
    at = one
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = 1
    with pytest.raises(ValidationError):
        schema("scaledobject").validate(one)


def test_keda_scales_on_a_recorded_series_and_gets_one_number() -> None:
    (one,) = objects("keda.yaml")
    for trigger in one["spec"]["triggers"]:
        query = trigger["metadata"]["query"]
        assert check(query).labels == frozenset(), "KEDA takes a single number"
        assert names_in(query) <= set(recorded())
        assert f'namespace="{one["metadata"]["namespace"]}"' in query
        # Without an answer it must not scale down: unknown is not "nobody waits".
        assert trigger["metadata"]["ignoreNullValues"] == "false"
        assert "fallback" in one["spec"]


@pytest.mark.parametrize("version", KUBERNETES)
def test_an_api_server_takes_the_objects_of_the_adapter(version: str) -> None:
    for one in objects("adapter.yaml"):
        kubernetes_validate.validate(one, version, strict=True)


def test_the_adapter_finds_and_asks_for_recorded_series() -> None:
    for rule in adapter_rules():
        (series,) = names_in(rule["seriesQuery"])
        found = check(rule["seriesQuery"])
        assert series in recorded()
        assert {"namespace"} == set(rule["resources"]["overrides"])
        query = filled(rule["metricsQuery"], series, 'namespace="ml",workload="serve"')
        assert names_in(query) == {series}
        assert check(query).labels == {"workload"} <= found.labels


def test_a_query_by_a_label_that_is_not_there_is_found() -> None:
    (rule, *_) = adapter_rules()
    (series,) = names_in(rule["seriesQuery"])
    with pytest.raises(Wrong):
        check(filled(rule["metricsQuery"], series, 'pod="serve-0"'))


def test_the_autoscaler_uses_a_metric_of_the_adapter() -> None:
    _, autoscaler = objects("adapter.yaml")
    offered = {rule["name"]["as"]: rule for rule in adapter_rules()}
    for metric in autoscaler["spec"]["metrics"]:
        asked = metric["external"]["metric"]
        (series,) = names_in(offered[asked["name"]]["seriesQuery"])
        assert set(asked["selector"]["matchLabels"]) <= check(series).labels
    down = autoscaler["spec"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] > 300


def test_nothing_is_scaled_on_utilization() -> None:
    queries = [rule["metricsQuery"] for rule in adapter_rules()]
    queries += [t["metadata"]["query"] for t in objects("keda.yaml")[0]["spec"]["triggers"]]
    for name in {name for text in queries for name in recorded() if name in text}:
        assert UTILIZATION not in recorded()[name]
