"""The chart as tests see it: rendered by the real helm, parsed, and asked."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "gpugauge"
HELM = ROOT / ".tools" / "bin" / "helm"
KUBECTL = ROOT / ".tools" / "bin" / "kubectl"
NAMESPACE = "gpugauge"
RELEASE = "gpugauge"
KUBERNETES = tuple(f"1.{minor}" for minor in range(28, 38))
CI = sorted((CHART / "ci").glob("*-values.yaml"))

Object = dict[str, Any]


class Refused(Exception):
    """helm refused; the text is what it said."""


@dataclass(frozen=True)
class Rendered:
    """Everything that one set of values renders."""

    text: str
    objects: tuple[Object, ...]

    def all(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Object:
        """Return the only object of a kind, or of that name."""
        found = [one for one in self.all(kind) if name in ("", one["metadata"]["name"])]
        assert len(found) == 1, f"{len(found)} of {kind} {name}"
        return found[0]

    def pod(self, name: str = "") -> Object:
        """Return the pod template's spec of a DaemonSet."""
        return self.one("DaemonSet", name)["spec"]["template"]["spec"]

    def container(self, name: str = "") -> Object:
        """Return its only container."""
        (found,) = self.pod(name)["containers"]
        return found

    def settings(self, name: str = RELEASE) -> dict[str, Any]:
        """Return the settings file of a pool, parsed."""
        return tomllib.loads(self.one("ConfigMap", name)["data"]["settings.toml"])

    def rules(self) -> list[Object]:
        """Return the rules of all roles."""
        return [
            rule for kind in ("ClusterRole", "Role") for o in self.all(kind) for rule in o["rules"]
        ]


def helm(*words: str) -> str:
    """Run helm; what it wrote.

    Raises:
        Refused: it failed.
    """
    assert HELM.exists(), "helm is missing: run make tools"
    done = subprocess.run([str(HELM), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def documents(text: str) -> Iterator[Object]:
    """Parse YAML documents, refusing a key that is there twice."""
    for document in yaml.load_all(text, Loader=_Strict):
        if document is not None:
            yield document


def render(
    values: Mapping[str, Any] | None = None,
    *more: str,
    files: Iterable[Path] = (),
    kubernetes: str = "1.37",
) -> Rendered:
    """Render the chart.

    Args:
        values: As in a values file.
        more: More words for helm.
        files: Values files, before `values`.
        kubernetes: The version of the cluster.

    Raises:
        Refused: the schema or a template refuses the values.
    """
    return _render(json.dumps(values or {}), more, tuple(str(one) for one in files), kubernetes)


@cache
def _render(values: str, more: tuple[str, ...], files: tuple[str, ...], version: str) -> Rendered:
    words = ["template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", version]
    for file in files:
        words += ["--values", file]
    words += [f"--set-json={key}={json.dumps(part)}" for key, part in json.loads(values).items()]
    text = helm(*words, *more)
    return Rendered(text, tuple(documents(text)))


class _Strict(yaml.SafeLoader):
    """The API server refuses a key that is there twice; PyYAML would take the last."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    assert not twice, f"{sorted(twice)} twice, at {node.start_mark}"
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
