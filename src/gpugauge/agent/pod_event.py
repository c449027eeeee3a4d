"""A finding as a Kubernetes Event on its pod.

Who may read a namespace's Events need not see other namespaces: pods of others are told
as that and not by name, and no process is named at all. The finding in full is on the
agent's own page, and its parties' pods are on /metrics.

The form is that of events.k8s.io/v1, whose server refuses a note above 1,024 bytes and
any later change but of the series (kubernetes/kubernetes pkg/apis/core/validation/events.go).
`kubectl describe pod` shows the series as "(x3 over 20m)".
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from gpugauge.attribution.pod_view import Pod
from gpugauge.diagnosis.rules import RULES
from gpugauge.diagnosis.text import clean, evidence_text, owner_text
from gpugauge.model.finding import Finding, Party, Severity
from gpugauge.model.workload import Owner, Scope

CONTROLLER = "gpugauge.io/agent"
ACTION = "Diagnose"
NOTE_BYTES = 1_024
INSTANCE_CHARACTERS = 128
NAME_CHARACTERS = 253
DIGEST_CHARACTERS = 16
HOUR_NS = 3600 * 10**9
"""An Event lives for an hour: a finding that comes back later has one of its own."""

_TITLES = {rule.id: rule.title for rule in RULES}
_PID = re.compile(r"\((\d+)\)")


def event_name(finding: Finding, pod: Pod) -> str:
    """Return the name of a finding's Event: the same for the same finding of another run."""
    container = finding.owner.container if finding.owner else ""
    what = (pod.uid, container, finding.rule, finding.gpu_uuid, finding.found_unix_ns // HOUR_NS)
    digest = hashlib.sha256(repr(what).encode()).hexdigest()[:DIGEST_CHARACTERS]
    start = pod.name[: NAME_CHARACTERS - DIGEST_CHARACTERS - 1].rstrip("-.")
    return f"{start}.{digest}"


def event(finding: Finding, pod: Pod, node: str) -> dict[str, Any]:
    """Return the Event to create.

    Args:
        finding: About a container of the pod.
        pod: As the watch knows it.
        node: Whose agent reports.
    """
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        # Of a static pod the kubelet reports by the hash, and `kubectl describe` looks for it.
        "uid": pod.config_hash or pod.uid,
    }
    container = finding.owner.container if finding.owner else ""
    if any(container == each.name and each.kind == "app" for each in pod.containers):
        regarding["fieldPath"] = f"spec.containers{{{container}}}"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event_name(finding, pod), "namespace": pod.namespace},
        "eventTime": micro_time(finding.found_unix_ns),
        "type": "Normal" if finding.severity is Severity.INFO else "Warning",
        "reason": "".join(word.capitalize() for word in finding.rule.split("_")),
        "action": ACTION,
        "note": note(finding),
        "regarding": regarding,
        "reportingController": CONTROLLER,
        "reportingInstance": node[:INSTANCE_CHARACTERS] or "unknown",
    }


def series(count: int, seen_unix_ns: int) -> dict[str, Any]:
    """Return the change that says how often, and when last, a finding was seen."""
    return {"series": {"count": max(2, count), "lastObservedTime": micro_time(seen_unix_ns)}}


def micro_time(unix_ns: int) -> str:
    """Return a time as Kubernetes writes a MicroTime."""
    seconds, ns = divmod(max(0, unix_ns), 10**9)
    moment = datetime.fromtimestamp(min(seconds, 253_402_300_799), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns // 1000:06d}Z"


def note(finding: Finding) -> str:
    """Return the sentence and the next step, at most NOTE_BYTES, without others' names."""
    text = f"{_sentence(finding)} {finding.remedy}".strip()
    return cut(f"(simulated) {text}" if finding.simulated else text)


def cut(text: str, limit: int = NOTE_BYTES) -> str:
    """Return `text` as one visible line of at most `limit` bytes, cut between characters."""
    text = "".join(ch if ch.isprintable() else " " for ch in text)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    mark = "…".encode()
    return data[: limit - len(mark)].decode(errors="ignore") + mark.decode()


def _sentence(finding: Finding) -> str:
    text = finding.sentence
    names: dict[str, str] = {}
    for party in finding.parties:
        names |= _stand_ins(party, finding.owner)
    # The longest first: one may be the beginning of another.
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)", names[name], text)
    pids = {str(pid) for pid in (*finding.pids, *(party.pid for party in finding.parties))}
    # Where a process is named all the same, the numbers tell enough.
    return text if pids.isdisjoint(_PID.findall(text)) else _by_numbers(finding)


def _stand_ins(party: Party, own: Owner | None) -> dict[str, str]:
    """Return how a sentence may name a party, with what stands in its place."""
    found = {f"{clean(party.command)} ({party.pid})": "another process"} if party.pid else {}
    name = owner_text(party.owner, party.command, party.pid)
    if party.owner.scope is not Scope.POD:
        found[name] = "another process"
    elif own is None or party.owner.namespace != own.namespace:
        found[name] = "a pod of another namespace"
    return found


def _by_numbers(finding: Finding) -> str:
    title = _TITLES.get(finding.rule, finding.rule)
    whose = owner_text(finding.owner)
    return f"{whose}: {title}: {'; '.join(evidence_text(each) for each in finding.evidence)}."
