"""The content of the agent's page about a pod, or about its node.

It answers with the evidence and the report: who asks from elsewhere may know more of the
API server than the agent is allowed to, joins both, and walks again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode

from gpugauge.codec.snapshot import from_plain, to_plain
from gpugauge.errors import ForeignDataError, SettingError
from gpugauge.explain import PATH
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.report import REPORT_VERSION, Report
from gpugauge.explain.walk import walk

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
API_SOURCES = (
    "pod",
    "events",
    "node",
    "nodes",
    "node_pods",
    "runtime_handler",
    "claims",
    "slices",
    "daemon_sets",
)


def wanted_pod(text: str) -> str:
    """Return `namespace/name`.

    Raises:
        SettingError: the text is no such pair.
    """
    namespace, slash, name = text.partition("/")
    if not slash or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise SettingError(
            f"{text[:64]!r} is no pod.", "Name one as NAMESPACE/POD, or give --node."
        )
    return text


def query_of(wanted: str) -> str:
    """Return the path and query that ask an agent for a pod, or for its node."""
    namespace, _, name = wanted.partition("/")
    return f"{PATH}?{urlencode({'namespace': namespace, 'pod': name})}" if wanted else PATH


def answer(query: str, look: Callable[[str], Evidence]) -> bytes:
    """Return the page as JSON.

    Args:
        query: Of the request, undecoded.
        look: Gathers the evidence of `namespace/pod`, or of the node for "".

    Raises:
        SettingError: the query names no pod in the right form.
    """
    given = parse_qs(query[:1024])
    namespace, name = (given.get(key, [""])[0] for key in ("namespace", "pod"))
    evidence = look(wanted_pod(f"{namespace}/{name}") if namespace or name else "")
    return dump(evidence, walk(evidence))


def dump(evidence: Evidence, report: Report) -> bytes:
    """Return evidence and report as JSON."""
    plain = {
        "version": REPORT_VERSION,
        "report": report_plain(report),
        "evidence": to_plain(Evidence, evidence),
    }
    return json.dumps(plain, allow_nan=False).encode() + b"\n"


def report_plain(report: Report) -> dict[str, Any]:
    """Return the report as what JSON can hold; verdicts and layers as their words."""
    plain: dict[str, Any] = to_plain(Report, report)
    for step, told in zip(plain["steps"], report.steps, strict=True):
        step["layer"], step["verdict"] = told.layer.value, told.verdict.value
        for one, answered in zip(step["answers"], told.answers, strict=True):
            one["verdict"] = answered.verdict.value
    return plain


def load_evidence(data: bytes) -> Evidence:
    """Return the evidence in an agent's answer.

    Raises:
        ForeignDataError: it is no such answer, or of another version.
    """
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict) or plain.get("version") != REPORT_VERSION:
        raise ForeignDataError(
            "The agent's answer has another form.", "Use the gpugauge of the agent's version."
        )
    evidence = from_plain(Evidence, plain.get("evidence"))
    assert isinstance(evidence, Evidence)  # noqa: S101 - for the type checker
    return evidence


def joined(node: Evidence, own: Evidence) -> Evidence:
    """Return the agent's evidence, with what only we could ask of the API server."""
    more = {
        name: getattr(own, name)
        for name in API_SOURCES
        if getattr(node, name) is None and getattr(own, name) is not None
    }
    missing = {k: v for k, v in node.missing.items() if k not in more}
    return replace(node, missing=missing, **more)
