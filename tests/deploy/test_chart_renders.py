"""Whatever values are given: what is rendered is taken by every Kubernetes that is supported."""

from __future__ import annotations

import itertools
import json
import re

import pytest
import yaml

import gpugauge
from tests.deploy.chart import CHART, CI, KUBERNETES, Refused, helm, render
from tests.deploy.validity import check

IDS = [path.name.removesuffix("-values.yaml") for path in CI]
CHOICES = {
    "security.preset": ["privileged"],
    "security.sysAdmin": [True],
    "driver.access": ["runtimeClass", "cdi", "hostPath", "none"],
    "nodes.withGpuOnly": ["always", "never"],
    "nodes.pauseForDriverUpgrade": [False],
    "canary.enabled": [True],
    "rbac.explain": [True],
}
"""Values that meet in one object, other than their defaults: every two of them are rendered."""


def pairs():
    for one, other in itertools.combinations(CHOICES, 2):
        for values in itertools.product(CHOICES[one], CHOICES[other]):
            both = dict(zip((one, other), values, strict=True))
            if both.get("driver.access") == "hostPath":
                both["security.preset"] = "privileged"  # else refused
            yield both


@pytest.mark.parametrize("path", CI, ids=IDS)
def test_lint_finds_nothing(path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", str(path))


@pytest.mark.parametrize("path", CI, ids=IDS)
def test_every_kubernetes_takes_it(path) -> None:
    for version in KUBERNETES:
        # What is rendered changes at 1.30 only: see the next test.
        as_for = "1.29" if version in ("1.28", "1.29") else "1.37"
        for one in render(files=[path], kubernetes=as_for).objects:
            check(one, version)


def test_templates_ask_for_one_version_only() -> None:
    texts = [path.read_text() for path in (CHART / "templates").iterdir()]
    asked = [found for text in texts for found in re.findall(r'semverCompare "([^"]+)"', text)]
    assert set(asked) == {">=1.30-0", "<1.30-0"}
    assert sum(text.count("KubeVersion") for text in texts) == len(asked)
    everything = CHART / "ci" / "everything-values.yaml"
    for same in (("1.28", "1.29"), ("1.30", "1.37")):
        texts = [render(files=[everything], kubernetes=version).text for version in same]
        assert texts[0] == texts[1]


def test_every_two_values_go_together() -> None:
    known = list(pairs())
    for values in known:
        for one in render(values).objects:
            check(one, "1.37")
    assert len(known) > 40


@pytest.mark.parametrize("path", CI, ids=IDS)
def test_rendering_twice_is_the_same(path) -> None:
    words = ["template", "gpugauge", str(CHART), "--values", str(path)]
    assert helm(*words) == helm(*words)


def test_every_kind_is_in_one_of_the_files() -> None:
    kinds = {one["kind"] for path in CI for one in render(files=[path]).objects}
    written = {
        kind
        for path in (CHART / "templates").glob("*.yaml")
        for kind in re.findall(r"^kind: (\w+)$", path.read_text(), re.MULTILINE)
    }
    assert written <= kinds
    assert {"DaemonSet", "PodMonitor", "ServiceMonitor", "PrometheusRule", "NetworkPolicy"} <= kinds


def test_no_name_is_given_twice() -> None:
    for path in CI:
        found = [
            (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
            for one in render(files=[path]).objects
        ]
        assert len(found) == len(set(found))


@pytest.mark.parametrize("release", ["a", "gpugauge", "x" * 53])
def test_names_fit_for_any_release(release) -> None:
    text = helm(
        "template", release, str(CHART), "--values", str(CHART / "ci" / "everything-values.yaml")
    )
    for one in yaml.safe_load_all(text):
        if one:
            check(one, "1.37")


def test_two_releases_share_no_name() -> None:
    """The names of what belongs to no namespace tell the release's namespace."""

    def names(namespace: str) -> set[tuple[str, str]]:
        text = helm("template", "gpugauge", str(CHART), "--namespace", namespace)
        found = [one for one in yaml.safe_load_all(text) if one]
        return {
            (o["kind"], o["metadata"]["name"]) for o in found if "namespace" not in o["metadata"]
        }

    assert names("a") and not names("a") & names("b")


def test_objects_lie_where_the_override_says() -> None:
    for one in render({"namespaceOverride": "elsewhere"}).objects:
        assert one["metadata"].get("namespace", "elsewhere") == "elsewhere"
        for subject in one.get("subjects", []):
            assert subject["namespace"] == "elsewhere"


def test_every_value_has_a_comment() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    for at, line in enumerate(lines):
        if re.match(r" *[\w]+:", line) and not line.rstrip().endswith(":"):
            above = lines[at - 1].strip()
            inside = re.match(r" {4,}", line) and not above.startswith("#")  # part of a value above
            assert above.startswith("#") or inside, f"line {at + 1}: {line}"


def test_the_default_values_are_those_of_the_schema() -> None:
    def compare(values, schema, where="") -> None:
        properties = schema.get("properties", {})
        for name, part in values.items():
            assert name in properties, f"{where}{name} is not in the schema"
            if isinstance(part, dict) and "properties" in properties[name]:
                compare(part, properties[name], f"{where}{name}.")
        missing = properties.keys() - values.keys() - {"global"}
        assert not missing, f"{where}: without a default: {missing}"

    schema = json.loads((CHART / "values.schema.json").read_text())
    for name, part in schema["properties"].items():
        if "$ref" in part:
            schema["properties"][name] = schema["definitions"][part["$ref"].rpartition("/")[2]]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in ("image", "settings"):
        del schema["properties"][name]
        del values[name]
    del schema["properties"]["canary"]["properties"]["settings"]["$ref"]
    compare(values, schema)


def test_notes_name_what_there_is() -> None:
    text = helm("install", "gpugauge", str(CHART), "--dry-run=client", "--namespace", "gpu",
                "--set", "canary.enabled=true")  # fmt: skip
    notes = text.partition("NOTES:")[2]
    for word in ("daemonset/gpugauge-canary", "configmap gpugauge-probes", "podMonitor.enabled"):
        assert word in notes
    assert "<no value>" not in text


def test_an_unknown_kubernetes_is_refused() -> None:
    with pytest.raises(Refused, match=r"1\.28"):
        render(kubernetes="1.27")


def test_the_chart_is_of_the_agents_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == gpugauge.__version__
    assert render().container()["image"] == f"gpugauge/gpugauge:{gpugauge.__version__}"


def test_a_package_renders_what_the_folder_does(tmp_path) -> None:
    helm("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("*.tgz")
    everything = str(CHART / "ci" / "everything-values.yaml")
    words = ["--namespace", "gpu", "--values", everything]
    texts = [helm("template", "gpugauge", str(one), *words) for one in (CHART, package)]
    assert texts[0] == texts[1] and "PrometheusRule" in texts[0]
