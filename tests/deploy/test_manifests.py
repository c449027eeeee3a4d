"""deploy/manifests is what the chart renders, and is taken as it stands."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import yaml

from tests.deploy.chart import KUBECTL, KUBERNETES, NAMESPACE, ROOT, documents, render
from tests.deploy.validity import check

generator = importlib.import_module("tools.generate_manifests")
FOLDER = ROOT / "deploy" / "manifests"
OWN = ("app.kubernetes.io/managed-by", "helm.sh/chart")
FROM = [one for one in KUBERNETES if int(one.split(".")[1]) >= 30]
"""Older ones have no field for an AppArmor profile; the chart writes an annotation for them."""


def without_helms_labels(one):
    labels = one["metadata"].get("labels", {})
    return one | {
        "metadata": one["metadata"]
        | ({"labels": {k: v for k, v in labels.items() if k not in OWN}} if labels else {})
    }


def by_name(objects):
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


@pytest.mark.parametrize("name", generator.FILES)
def test_a_manifest_is_what_the_chart_renders(name) -> None:
    _, values, templates = generator.FILES[name]
    pairs = dict(value.split("=") for value in values)
    typed = {key: {"true": True}.get(text, text) for key, text in pairs.items()}
    rendered = render(typed, kubernetes=generator.OLDEST_KUBERNETES)
    kinds = {template: template for template in templates}
    wanted = [
        without_helms_labels(one)
        for one in rendered.objects
        if not kinds or one["kind"].lower() in kinds
    ]
    assert by_name(documents((FOLDER / name).read_text())) == by_name(wanted)
    assert wanted


@pytest.mark.parametrize("name", [*generator.FILES, "namespace.yaml"])
def test_every_kubernetes_takes_a_manifest(name) -> None:
    for version in FROM:
        for one in documents((FOLDER / name).read_text()):
            check(one, version)


def test_nothing_speaks_of_helm() -> None:
    for path in FOLDER.glob("*.yaml"):
        lines = path.read_text().splitlines()
        assert not [line for line in lines if "helm" in line.lower() and not line.startswith("#")]


def test_the_namespace_admits_the_pods() -> None:
    (one,) = documents((FOLDER / "namespace.yaml").read_text())
    assert one["metadata"]["name"] == NAMESPACE
    assert one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def kustomize(folder):
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return by_name(documents(done.stdout))


def test_kustomize_builds_the_namespace_and_the_manifest() -> None:
    wanted = [
        one
        for name in ("namespace.yaml", "gpugauge.yaml")
        for one in documents((FOLDER / name).read_text())
    ]
    assert kustomize(FOLDER) == by_name(wanted)


def test_an_overlay_can_move_and_change_it(tmp_path) -> None:
    (tmp_path / "base").mkdir()
    for path in FOLDER.glob("*.yaml"):
        (tmp_path / "base" / path.name).write_text(path.read_text())
    overlay = {
        "resources": ["base"],
        "images": [{"name": "gpugauge/gpugauge", "newName": "registry.example/g", "newTag": "9"}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = kustomize(tmp_path)
    pod = built["DaemonSet", "gpugauge"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/g:9"


def test_without_helm_it_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr(generator, "HELM", ROOT / ".tools" / "bin" / "no-such-program")
    with pytest.raises(generator.StaleError, match="make tools"):
        generator.main(check=True)


def test_a_stale_manifest_is_told(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(generator, "ROOT", tmp_path.parent)
    monkeypatch.setattr(generator, "MANIFESTS", tmp_path)
    monkeypatch.setattr(generator, "SCHEMA", generator.SCHEMA)
    for name in generator.FILES:
        (tmp_path / name).write_text((FOLDER / name).read_text())
    monkeypatch.setattr(generator, "HELM", generator.HELM)
    generator.main(check=True)
    (tmp_path / "privileged.yaml").write_text("---\n")
    with pytest.raises(generator.StaleError, match=r"privileged.yaml is stale: run make generate"):
        generator.main(check=True)


def test_as_a_program_it_ends_with_the_sentence() -> None:
    script = ROOT / "tools" / "generate_manifests.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
