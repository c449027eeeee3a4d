"""The fake API server with what the agent writes: Events, and metadata of its node.

What a real server refuses is refused here: an Event of events.k8s.io/v1 whose fields are
missing or too long, a change of anything of it but its series, a patch of another kind.
Metadata alone is served where it is asked for. Sources: kubernetes/kubernetes
pkg/apis/core/validation/events.go, and the media types of api-concepts.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.k8s.fakes.api_server import NODES, PODS, FakeApiServer, Handler, Object

EVENTS_V1 = "/apis/events.k8s.io/v1/events"
CONFIG_MAPS = "/api/v1/configmaps"
NAMESPACES = "/api/v1/namespaces"
AS = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_QUALIFIED = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class WritableApiServer(FakeApiServer):
    """Objects that can be created and patched too."""

    def __init__(self, **given: Any) -> None:
        super().__init__(paths=(PODS, NAMESPACES, NODES, CONFIG_MAPS, EVENTS_V1), **given)
        self.handler = _WritingHandler
        self.refused: list[tuple[str, str]] = []
        """Writes that a real server would refuse: (path, why)."""
        self.writes: list[tuple[str, str, Object]] = []
        """Every write that arrived: (method, path, body)."""
        self.partial: set[tuple[str, str]] = set()
        """What was asked for as metadata alone: (path, `list` or `watch`)."""
        self.write_seconds = 0.0
        """So long an answer to a write takes."""

    def events(self) -> list[Object]:
        """Return all Events, the oldest first."""
        held = self.objects.get(EVENTS_V1, {}).values()
        return sorted(held, key=lambda one: one["eventTime"])

    def annotations(self, node: str) -> dict[str, str]:
        """Return what is annotated on a node."""
        for one in self.objects.get(NODES, {}).values():
            if one["metadata"]["name"] == node:
                return dict(one["metadata"].get("annotations") or {})
        return {}


class _WritingHandler(Handler):
    fake: WritableApiServer

    def do_POST(self) -> None:
        if "/portforward" in self.path:
            return super().do_POST()
        body = self._body()
        path, namespace, _name = self.fake.route(self.path)
        if not self._allowed("POST", path, body):
            return None
        why = event_fault(body, namespace)
        if self.headers["Content-Type"] != "application/json":
            why = "the media type"
        if why:
            self.fake.refused.append((self.path, why))
            return self._status(422, "Invalid", why)
        name = body["metadata"]["name"]
        if any(one["metadata"]["name"] == name for one in self._held(path, namespace)):
            return self._status(409, "AlreadyExists")
        body["metadata"].setdefault("uid", f"{namespace}/{name}")
        self.fake.put(path, body)
        return self._json(body, 201)

    def do_PATCH(self) -> None:
        body = self._body()
        path, namespace, name = self.fake.route(self.path)
        if not self._allowed("PATCH", path, body):
            return None
        if self.headers["Content-Type"] != "application/merge-patch+json":
            self.fake.refused.append((self.path, "the media type"))
            return self._status(415, "UnsupportedMediaType")
        found = [o for o in self._held(path, namespace) if o["metadata"]["name"] == name]
        if not found:
            return self._status(404, "NotFound")
        after = _merged(found[0], body)
        if path == EVENTS_V1:
            why = event_fault(after, namespace) or _changed(found[0], after)
            if why:
                self.fake.refused.append((self.path, why))
                return self._status(422, "Invalid", why)
        self.fake.put(path, after)
        return self._json(after)

    def _body(self) -> Object:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return dict(json.loads(data))

    def _held(self, path: str, namespace: str) -> list[Object]:
        held = list(self.fake.objects.get(path, {}).values())
        return [one for one in held if one["metadata"].get("namespace", "") == namespace]

    def _allowed(self, method: str, path: str, body: Object) -> bool:
        fake = self.fake
        fake.writes.append((method, self.path, body))
        time.sleep(fake.write_seconds)
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        queue = fake.faults.get((path, method))
        fault = queue.popleft() if queue else ""
        if bearer not in fake.tokens:
            self._status(401, "Unauthorized")
        elif f"{method} {path}" in fake.forbidden:
            self._status(403, "Forbidden")
        elif path not in fake.paths:
            self._status(404, "NotFound")
        elif isinstance(fault, int):
            self._status(fault, "Fault")
        elif fault:
            self._head(200, 1000)
            self._send(b'{"kind":' + b" " * 900, fault)
            self.close_connection = True
        else:
            return True
        return False

    # -- metadata alone

    def do_GET(self) -> None:
        accept = [part.strip() for part in self.headers.get("Accept", "").split(",")]
        watch = "watch=true" in self.path
        self._partial = AS.format("" if watch else "List") in accept[:1]
        if self._partial:
            self.fake.partial.add((self.path.partition("?")[0], "watch" if watch else "list"))
        elif any("as=Partial" in part for part in accept[:1]):
            return self._status(406, "NotAcceptable")
        return super().do_GET()

    def _shown(self, item: Object) -> Object:
        if not self._partial:
            return item
        kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return {**kind, "metadata": item["metadata"]}


def _merged(before: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch, by RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merged(after.get(key), value)
    return after


def event_fault(event: Object, namespace: str) -> str:
    """Return why a server refuses an Event; "" if it does not."""
    meta, regarding, series = event["metadata"], event.get("regarding", {}), event.get("series")
    texts = [("reportingController", 63), ("reportingInstance", 128), ("action", 128),
             ("reason", 128)]  # fmt: skip
    for field, limit in texts:
        if not 0 < len(event.get(field, "")) <= limit:
            return field
    if not _QUALIFIED.fullmatch(event["reportingController"]):
        return "reportingController"
    if len(event.get("note", "").encode()) > 1024:
        return "note"
    if not _SUBDOMAIN.fullmatch(meta["name"]) or len(meta["name"]) > 253:
        return "name"
    if not meta["namespace"] == regarding.get("namespace") == namespace:
        return "namespace"
    if event.get("type") not in {"Normal", "Warning"}:
        return "type"
    if not _MICRO_TIME.fullmatch(event.get("eventTime", "")):
        return "eventTime"
    if series is not None and (
        series.get("count", 0) < 2 or not _MICRO_TIME.fullmatch(series.get("lastObservedTime", ""))
    ):
        return "series"
    known = {"apiVersion", "kind", "metadata", "regarding", "reason", "note", "type", "eventTime",
             "series", "action", "reportingController", "reportingInstance"}  # fmt: skip
    return ", ".join(sorted(set(event) - known))


def _changed(before: Object, after: Object) -> str:
    """Return what of an Event was changed that may not be."""
    fields = {**before, **after}.keys() - {"series", "metadata"}
    return ", ".join(sorted(name for name in fields if before.get(name) != after.get(name)))
