"""Whether an API server would take an object: schemas of Kubernetes, ours of other kinds."""

from __future__ import annotations

import json
import re
from functools import cache

import kubernetes_validate.utils
from jsonschema import Draft202012Validator

from tests.deploy.chart import ROOT, Object

CRDS = ROOT / "tests" / "deploy" / "crds"
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# It reads its schemas, megabytes, for every object again.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)
kubernetes_validate.utils.all_versions = cache(kubernetes_validate.utils.all_versions)


@cache
def _schema(kind: str) -> Draft202012Validator:
    schema = json.loads((CRDS / f"{kind.lower()}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@cache
def _checked(text: str, version: str) -> None:
    one = json.loads(text)
    if one["apiVersion"].startswith("monitoring.coreos.com/"):
        _schema(one["kind"]).validate(one)
    else:
        kubernetes_validate.validate(one, version, strict=True)
    check_names(one)


def check(one: Object, version: str) -> None:
    """Check an object as strictly as a cluster of that version does, and the forms of its names."""
    _checked(json.dumps(one, sort_keys=True), version)


def check_names(one: Object) -> None:
    """Check what no schema says: the forms of names and labels."""
    metadata = one["metadata"]
    assert NAME.fullmatch(metadata["name"]), metadata["name"]
    if one["kind"] in {"Service", "DaemonSet"}:
        assert DNS_LABEL.fullmatch(metadata["name"]), metadata["name"]
    template = one.get("spec", {}).get("template", {}).get("metadata", {})
    for labels in (metadata.get("labels", {}), template.get("labels", {})):
        for key, text in labels.items():
            assert LABEL_KEY.fullmatch(key), key
            assert LABEL_VALUE.fullmatch(text), (key, text)
