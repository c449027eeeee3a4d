"""Write deploy/manifests from the chart, and the settings' part of its schema; `--check` compares.

Needs helm (`make tools`). The manifests are what `helm template` renders for a release named
gpugauge in a namespace of that name, without helm's own labels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from gpugauge.settings.catalog import Setting, catalog, sections  # noqa: E402

CHART = ROOT / "deploy" / "helm" / "gpugauge"
SCHEMA = CHART / "values.schema.json"
MANIFESTS = ROOT / "deploy" / "manifests"
HELM = ROOT / ".tools" / "bin" / "helm"
NAME = "gpugauge"
OLDEST_KUBERNETES = "1.30.0"
"""The oldest Kubernetes that the manifests are for: its securityContext has an AppArmor profile.
For an older one the chart writes an annotation instead."""
HEAD = "# Written by tools/generate_manifests.py from deploy/helm/gpugauge.\n# {what}\n"

MONITORING = ("podMonitor.enabled=true", "prometheusRule.enabled=true")
FILES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "gpugauge.yaml": ("Everywhere; NVML where the NVIDIA runtime is the default one.", (), ()),
    "gpu-operator.yaml": (
        "With the GPU Operator: RuntimeClass nvidia, on nodes that have a GPU.",
        ("driver.access=runtimeClass",),
        (),
    ),
    "privileged.yaml": (
        "Everywhere, with a privileged container; NVML by the host's /dev.",
        ("security.preset=privileged", "driver.access=hostPath"),
        (),
    ),
    "monitoring.yaml": (
        "For the Prometheus Operator: what to scrape, recording rules and alerts.",
        MONITORING,
        ("podmonitor", "prometheusrule"),
    ),
}
"""By file: what it is for, the values, and the templates shown (empty: all)."""

OF_OTHER_VALUES = {
    "node_name", "listen_port", "listen_bearer_token_file", "kubernetes_kubelet_path",
    "kubernetes_kubeconfig", "off_switch_node_annotation", "off_switch_config_map",
    "pod_events_enabled", "pod_events_severity", "load_score_enabled", "demo_libraries",
}  # fmt: skip
"""Settings that other values of the chart decide, or that no pod has."""


class StaleError(Exception):
    """A file is not what would be written; or helm is missing."""


def property_of(setting: Setting) -> dict[str, Any]:
    """Return the JSON schema of a setting's value."""
    kind = setting.type
    told = {"description": setting.meaning}
    if kind is bool:
        return {"type": "boolean", **told}
    if kind in (int, float):
        bounds = {"minimum": setting.low, "maximum": setting.high}
        known = {name: number for name, number in bounds.items() if number is not None}
        return {"type": "integer" if kind is int else "number", **known, **told}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": list(kind), **told}
    if kind == tuple[str, ...]:
        return {"type": "array", "items": {"type": "string"}, **told}
    if get_origin(kind) is Mapping:
        amounts = {"type": "number", "minimum": 0}
        return {"type": "object", "additionalProperties": amounts, **told}
    if setting.pattern:
        return {"type": "string", "pattern": f"^(?:{setting.pattern})$", **told}
    return {"type": "string", **told}


def settings_schema() -> dict[str, Any]:
    """Return the schema of the value `settings`, from the agent's own table of settings."""
    root: dict[str, Any] = {}
    for section in sections():
        root[section] = {"type": "object", "additionalProperties": False, "properties": {}}
    for setting in catalog():
        if setting.key in OF_OTHER_VALUES:
            continue
        place = root[setting.section]["properties"] if setting.section else root
        place[setting.name] = property_of(setting)
    kept = {name: part for name, part in root.items() if part.get("properties") != {}}
    return {"type": "object", "additionalProperties": False, "properties": kept}


def schema_text() -> str:
    """Return values.schema.json with the settings of now."""
    schema = json.loads(SCHEMA.read_text())
    schema["definitions"]["settings"] = settings_schema()
    return json.dumps(schema, indent=2) + "\n"


def render(values: tuple[str, ...], templates: tuple[str, ...]) -> str:
    """Return what helm renders, without what only helm needs.

    Raises:
        StaleError: helm is missing, or refuses.
    """
    if not HELM.exists():
        raise StaleError(f"{HELM.relative_to(ROOT)} is missing: run make tools")
    command = [str(HELM), "template", NAME, str(CHART), "--namespace", NAME]
    command += ["--kube-version", OLDEST_KUBERNETES]
    for value in values:
        command += ["--set", value]
    for template in templates:
        command += ["--show-only", f"templates/{template}.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StaleError(f"helm template failed: {done.stderr.strip()}")
    own = ("app.kubernetes.io/managed-by:", "helm.sh/chart:", "# Source:")
    return "".join(
        line + "\n"
        for line in done.stdout.splitlines()
        if line.strip() and not line.strip().startswith(own)
    )


def outputs() -> Iterator[tuple[Path, str]]:
    """Yield each file with its text. The schema first: helm checks values against it."""
    yield SCHEMA, schema_text()
    for name, (what, values, templates) in FILES.items():
        yield MANIFESTS / name, HEAD.format(what=what) + render(values, templates)


def main(*, check: bool) -> None:
    """Write, or compare.

    Raises:
        StaleError: with `check`, something would be written.
    """
    for path, text in outputs():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise StaleError(f"{path.relative_to(ROOT)} is stale: run make generate")


if __name__ == "__main__":
    try:
        main(check="--check" in sys.argv)
    except StaleError as error:
        sys.exit(str(error))
