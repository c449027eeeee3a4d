"""A fake API server: real HTTP, list, paging, watch and bookmarks, and faults on demand.

    with FakeApiServer() as server:
        server.put(PODS, pod("a"))
        server.fail(PODS, "watch", "reset")      # the next watch of pods is reset
        kubeconfig = server.kubeconfig(tmp_path)

Any collection can be served (`paths`); objects are also read one by one, and by namespace.

Faults, each for the next `times` requests: a number (that HTTP status), `expired` (410 in
the stream), `error` (500 in the stream), `silence` (nothing more is sent), `reset`, `slow`
(bytes drip), `malformed`, `huge`, `cut` (the stream ends in the middle of an object).

Ports of pods are forwarded as `kubectl port-forward` asks for it: `forwards.ports` tells where
each leads.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.k8s.fakes import port_forward

Object = dict[str, Any]
PODS = "/api/v1/pods"
NAMESPACES = "/api/v1/namespaces"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICES_BETA = "/apis/resource.k8s.io/v1beta1/resourceslices"
EVENTS = "/api/v1/events"
NODES = "/api/v1/nodes"
TOKEN = "first-token"
_FORWARDED = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/portforward")
_DISCOVERY: dict[str, Object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["get", "list", "watch"],
            }
        ],
    },
}
"""What kubectl asks first, to know what a pod is."""
_NAMESPACED = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)/namespaces/([^/]+)/([^/]+)(?:/([^/]+))?")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that went away are part of the tests."""


class FakeApiServer:
    """Objects by path, their history, and the requests that were made."""

    handler: type[Handler] | None = None
    """What answers; None: the handler below."""

    def __init__(self, *, paths: tuple[str, ...] = (PODS, NAMESPACES), tls: Path | None = None):
        self.paths = set(paths)
        self.tokens = {TOKEN}
        self.forbidden: set[str] = set()
        self.forbidden_at_cluster_scope: set[str] = set()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.changed = threading.Condition()
        self.running = False
        self.compacted = 0
        """Versions below this are gone: a watch from there gets 410."""
        self.version = 1000
        self.objects: dict[str, dict[str, Object]] = {}
        self.history: dict[str, list[tuple[int, str, Object]]] = {}
        self.faults: dict[tuple[str, str], deque[str | int]] = {}
        self.huge_bytes = 64 << 20
        self.slow_seconds = 0.05
        self._tls = tls
        self._http: _Http | None = None
        self._sockets: set[socket.socket] = set()
        self.port = 0
        self.forwards = port_forward.Forwards()

    def __enter__(self) -> FakeApiServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; on the port it had before, if it had one."""
        handler = type("Handler", (self.handler or Handler,), {"fake": self})
        self._http = _Http(("127.0.0.1", self.port), handler)
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self.running = True
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Go down as a killed server does: open connections end, new ones are refused."""
        if not self.running:
            return
        self.running = False
        self.wake()
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()
        for one in list(self._sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def put(self, path: str, item: Object) -> None:
        """Add or change an object."""
        with self.changed:
            self.version += 1
            held = self.objects.setdefault(path, {})
            key = item["metadata"].get("uid") or item["metadata"]["name"]
            kind = "MODIFIED" if key in held else "ADDED"
            item = json.loads(json.dumps(item))
            item["metadata"]["resourceVersion"] = str(self.version)
            held[key] = item
            self.history.setdefault(path, []).append((self.version, kind, item))
            self.changed.notify_all()

    def delete(self, path: str, item: Object) -> None:
        """Remove an object."""
        with self.changed:
            self.version += 1
            key = item["metadata"].get("uid") or item["metadata"]["name"]
            gone = dict(self.objects[path].pop(key))
            gone["metadata"] = {**gone["metadata"], "resourceVersion": str(self.version)}
            self.history.setdefault(path, []).append((self.version, "DELETED", gone))
            self.changed.notify_all()

    def bookmark(self, path: str) -> None:
        """Tell watches that asked for it how far history is."""
        with self.changed:
            self.version += 1
            mark = {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}
            self.history.setdefault(path, []).append((self.version, "BOOKMARK", mark))
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget history, as etcd does after five minutes."""
        with self.changed:
            self.compacted = self.version
            self.changed.notify_all()

    def fail(self, path: str, on: str, fault: str | int, *, times: int = 1) -> None:
        """Make the next `list` or `watch` requests of a path fail."""
        self.faults.setdefault((path, on), deque()).extend([fault] * times)

    def count(self, path: str, on: str) -> int:
        """Return how many `list` or `watch` requests were made."""
        return sum(
            seen == path and (("watch" in params) == (on == "watch"))
            for seen, params in list(self.requests)
        )

    def route(self, path: str) -> tuple[str, str, str]:
        """Return (collection, namespace, name): `/api/v1/namespaces/ml/pods/a` is one of PODS."""
        match = _NAMESPACED.fullmatch(path)
        if match:
            root, namespace, resource, name = match.groups()
            return f"{root}/{resource}", namespace, name or ""
        collection, _, name = path.rpartition("/")
        return (collection, "", name) if collection in self.paths else (path, "", "")

    def kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig whose token is in a file, as a service account's is."""
        (folder / "token").write_text(TOKEN)
        scheme = "https" if self._tls else "http"
        # Loading the system's certificates for a plain connection takes half a second.
        cluster = {
            "server": f"{scheme}://127.0.0.1:{self.port}",
            "insecure-skip-tls-verify": True,
        }
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"tokenFile": str(folder / "token")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))  # JSON is YAML
        return path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a client waits 40 ms for the body of each answer
    fake: FakeApiServer
    _drip = False

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def setup(self) -> None:
        super().setup()
        self.fake._sockets.add(self.connection)

    def finish(self) -> None:
        self.fake._sockets.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        fake = self.fake
        parts = urlsplit(self.path)
        params = dict(parse_qsl(parts.query))
        on = "watch" if params.get("watch") == "true" else "list"
        fake.requests.append((parts.path, params))
        bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if bearer not in fake.tokens:
            return self._status(401, "Unauthorized")
        forwarded = _FORWARDED.fullmatch(parts.path)
        if forwarded:
            return self._forward(*forwarded.groups())
        if parts.path in _DISCOVERY:
            return self._json(_DISCOVERY[parts.path])
        path, namespace, name = fake.route(parts.path)
        everywhere = () if namespace else fake.forbidden_at_cluster_scope
        if {path, parts.path} & fake.forbidden or path in everywhere:
            verb = "get" if name else "list"
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            return self._forbid(verb, path.rpartition("/")[2], name, where)
        if path not in fake.paths:
            return self._status(404, "NotFound")
        queue = fake.faults.get((path, on))
        fault = queue.popleft() if queue else ""
        if isinstance(fault, int):
            return self._status(fault, "Fault")
        if namespace:
            params["fieldSelector"] = ",".join(
                filter(None, [params.get("fieldSelector"), f"metadata.namespace={namespace}"])
            )
        if name:
            return self._get(path, namespace, name)
        return (self._watch if on == "watch" else self._list)(path, params, fault)

    def do_POST(self) -> None:
        """Refuse the older way to forward ports, which kubectl tries when the first one fails."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def _forward(self, namespace: str, pod: str) -> None:
        forwards = self.fake.forwards
        if namespace in forwards.forbidden:
            where = f'in the namespace "{namespace}"'
            return self._forbid("create", "pods/portforward", pod, where)
        while pod in forwards.silent and self.fake.running:
            time.sleep(0.01)
        head = port_forward.upgrade(self.headers)
        if head is None:
            return self._status(400, "BadRequest")
        self.wfile.write(head)
        self.close_connection = True
        tunnel = port_forward.WebSocket(self.rfile, self.connection)
        return port_forward.serve(forwards, namespace, pod, tunnel)

    def _forbid(self, verb: str, resource: str, name: str, where: str) -> None:
        one = " ".join(filter(None, [resource.partition("/")[0], name and f'"{name}"']))
        self._status(
            403,
            "Forbidden",
            f'{one} is forbidden: User "somebody" cannot {verb} resource "{resource}"'
            f' in API group "" {where}',
        )

    def _get(self, path: str, namespace: str, name: str) -> None:
        for item in self.fake.objects.get(path, {}).values():
            meta = item["metadata"]
            if meta["name"] == name and meta.get("namespace", "") == namespace:
                return self._json(item)
        return self._status(404, "NotFound")

    def _shown(self, item: Object) -> Object:
        """Return an object as this request is to see it."""
        return item

    # -- lists

    def _list(self, path: str, params: dict[str, str], fault: str) -> None:
        fake = self.fake
        with fake.changed:
            held = [o for _, o in sorted(fake.objects.get(path, {}).items())]
            version = fake.version
        items = [one for one in held if _selected(one, params)]
        start = int(params.get("continue") or 0)
        # The watch cache answers whole lists, whatever page size was asked for.
        size = len(items) if params.get("resourceVersion") == "0" else int(params.get("limit", 500))
        meta: Object = {"resourceVersion": str(version)}
        if start + size < len(items):
            meta["continue"] = str(start + size)
        shown = [self._shown(one) for one in items[start : start + size]]
        page = {"kind": "List", "metadata": meta, "items": shown}
        body = json.dumps(page).encode()
        if fault == "malformed":
            body = body[: len(body) // 2] + b"\x00]]"
        if fault == "huge":
            body = body[:-1] + b"," + b'"x":"' + b"x" * fake.huge_bytes + b'"}'
        self._head(200, length=len(body))
        self._send(body, fault)

    # -- watches

    def _watch(self, path: str, params: dict[str, str], fault: str) -> None:
        fake = self.fake
        seen = int(params.get("resourceVersion") or 0)
        until = time.monotonic() + float(params.get("timeoutSeconds", 300))
        self._head(200)
        if seen < fake.compacted:
            self._event("ERROR", _error(410, "Expired"))
            return self._end()
        if fault in {"expired", "error"}:
            self._event("ERROR", _error(410 if fault == "expired" else 500, "Fault"))
            return self._end()
        self._drip = fault == "slow"
        if fault and not self._drip:
            return self._broken(fault)
        while fake.running and time.monotonic() < until:
            with fake.changed:
                fresh = [event for event in fake.history.get(path, []) if event[0] > seen]
                if not fresh:
                    fake.changed.wait(min(0.5, max(0.0, until - time.monotonic())))
                    continue
            for version, kind, item in fresh:
                seen = version
                if kind == "BOOKMARK":
                    if params.get("allowWatchBookmarks") == "true":
                        self._event(kind, item)
                elif _selected(item, params):
                    self._event(kind, self._shown(item))
        return self._end()

    def _broken(self, fault: str) -> None:
        line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "x"}}}).encode()
        if fault == "malformed":
            self._chunk(line[:-9] + b"}}}}\n")
            return self._end()
        if fault == "huge":
            sent = 0
            while sent < self.fake.huge_bytes and self.fake.running:
                self._chunk(b" " * (1 << 20))
                sent += 1 << 20
            return self._end()
        return self._send(line, fault)

    # -- bytes

    def _send(self, body: bytes, fault: str) -> None:
        if fault == "silence":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            while self.fake.running:
                time.sleep(0.01)
            return
        if fault == "reset":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            # A zero linger makes close() send RST.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if fault == "cut":
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        if fault == "slow":
            for start in range(0, len(body), 64):
                if not self.fake.running:
                    return
                self.wfile.write(body[start : start + 64])
                self.wfile.flush()
                time.sleep(self.fake.slow_seconds)
            return
        self.wfile.write(body)

    def _head(self, status: int, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _status(self, status: int, reason: str, message: str = "") -> None:
        self._json(_error(status, reason, message), status)

    def _json(self, item: Object, status: int = 200) -> None:
        body = json.dumps(item).encode()
        self._head(status, len(body))
        self.wfile.write(body)

    def _event(self, kind: str, item: Object) -> None:
        self._chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def _chunk(self, data: bytes) -> None:
        chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        self._send(chunk, "slow" if self._drip else "")
        self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


def _error(code: int, reason: str, message: str = "") -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message or reason,
    }


def _selected(item: Object, params: dict[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    wanted_labels = filter(None, params.get("labelSelector", "").split(","))
    if any(labels.get(k) != v for k, _, v in (term.partition("=") for term in wanted_labels)):
        return False
    selector = params.get("fieldSelector", "")
    if not selector:
        return True
    for term in selector.split(","):
        field, _, wanted = term.partition("=")
        value: Any = item
        for part in field.split("."):
            value = value.get(part, {})
        if value != wanted:
            return False
    return True
