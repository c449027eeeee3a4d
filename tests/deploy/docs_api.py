"""A fake API server that documented commands of kubectl and helm can really be run against.

It keeps whatever is created, patched or applied, tells of what it knows by discovery, and says
at once that a DaemonSet is rolled out. Whether manifests are right is not its business: the
chart's tests hold them against the schemas.
"""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.deploy import docs_wire
from tests.k8s.fakes.api_server import FakeApiServer, Handler, Object, _selected

# (group and version, plural, kind, is it in a namespace, short names)
RESOURCES: tuple[tuple[str, str, str, bool, tuple[str, ...]], ...] = (
    ("v1", "pods", "Pod", True, ("po",)),
    ("v1", "nodes", "Node", False, ("no",)),
    ("v1", "namespaces", "Namespace", False, ("ns",)),
    ("v1", "services", "Service", True, ("svc",)),
    ("v1", "secrets", "Secret", True, ()),
    ("v1", "configmaps", "ConfigMap", True, ("cm",)),
    ("v1", "serviceaccounts", "ServiceAccount", True, ("sa",)),
    ("v1", "events", "Event", True, ("ev",)),
    ("apps/v1", "daemonsets", "DaemonSet", True, ("ds",)),
    ("apps/v1", "deployments", "Deployment", True, ("deploy",)),
    ("apps/v1", "controllerrevisions", "ControllerRevision", True, ()),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", True, ()),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", True, ()),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False, ()),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", False, ()),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", True, ("netpol",)),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies",
     "ValidatingAdmissionPolicy", False, ()),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings",
     "ValidatingAdmissionPolicyBinding", False, ()),
    ("monitoring.coreos.com/v1", "podmonitors", "PodMonitor", True, ()),
    ("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor", True, ()),
    ("monitoring.coreos.com/v1", "prometheusrules", "PrometheusRule", True, ()),
    ("keda.sh/v1alpha1", "scaledobjects", "ScaledObject", True, ()),
)  # fmt: skip
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def path_of(group: str, plural: str) -> str:
    """Return the path of all objects of a kind."""
    return f"/{'api' if group == 'v1' else 'apis'}/{group}/{plural}"


PATHS = {path_of(group, plural): (group, kind) for group, plural, kind, *_ in RESOURCES}


class DocsApiServer(FakeApiServer):
    """Serves every kind of RESOURCES, reading and writing."""

    def __init__(self) -> None:
        super().__init__(paths=tuple(PATHS))
        self.handler = _Handler
        self.tokens.add("")  # without TLS kubectl sends no token

    def ask(self, what: str) -> None:
        """Do what was asked by POST of /docs/WHAT: for who makes a stage of it."""

    def find(self, path: str, namespace: str, name: str) -> Object | None:
        """Return an object, or None."""
        for item in self.objects.get(path, {}).values():
            meta = item["metadata"]
            if (meta.get("namespace", ""), meta["name"]) == (namespace, name):
                return copy.deepcopy(item)
        return None

    def keep(self, path: str, namespace: str, item: Object) -> Object:
        """Store an object as a server does, its controllers included, and return it."""
        group, kind = PATHS[path]
        item |= {"apiVersion": group, "kind": kind}
        meta = item["metadata"]
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = f"{path}/{namespace}/{meta['name']}"
        meta.setdefault("creationTimestamp", "2026-11-29T00:00:00Z")
        meta["generation"] = meta.get("generation", 0) + 1
        if kind == "DaemonSet":
            counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady",
                      "numberAvailable", "updatedNumberScheduled")  # fmt: skip
            item["status"] = dict.fromkeys(counts, 1) | {"observedGeneration": meta["generation"]}
        if kind == "Namespace":
            item["status"] = {"phase": "Active"}
        self.put(path, item)
        return self.find(path, namespace, meta["name"]) or item


class _Handler(Handler):
    fake: DocsApiServer

    def do_GET(self) -> None:
        found = discovery(urlsplit(self.path).path)
        if found is not None:
            return self._json(found)
        if "sendInitialEvents=true" in self.path:  # clients then list and watch, as of old
            return self._status(422, "Invalid", "sendInitialEvents is not offered")
        return super().do_GET()

    def _list(self, path: str, params: dict[str, str], fault: str) -> None:
        fake = self.fake
        with fake.changed:
            items = [one for one in fake.objects.get(path, {}).values() if _selected(one, params)]
            version = str(fake.version)
        group, kind = PATHS[path]
        meta = {"resourceVersion": version}
        self._json({"apiVersion": group, "kind": f"{kind}List", "metadata": meta, "items": items})

    def do_POST(self) -> None:
        if "/portforward" in self.path:
            return super().do_POST()
        if self.path.startswith("/docs/"):
            self.fake.ask(self.path.removeprefix("/docs/"))
            return self._json({})
        path, namespace, _ = self.fake.route(urlsplit(self.path).path)
        body = self._body()
        if path not in PATHS:
            return self._status(404, "NotFound")
        if self.fake.find(path, namespace, body["metadata"]["name"]):
            return self._status(409, "AlreadyExists")
        return self._json(self.fake.keep(path, namespace, body), 201)

    def do_PUT(self) -> None:
        self._change(lambda _old, body: body)

    def do_PATCH(self) -> None:
        self._change(merged)

    def _change(self, change: Any) -> None:
        path, namespace, name = self.fake.route(urlsplit(self.path).path)
        body = self._body()
        applied = "apply-patch" in (self.headers["Content-Type"] or "")
        old = self.fake.find(path, namespace, name) if path in PATHS else None
        if old is None and not (applied and path in PATHS):
            return self._status(404, "NotFound", f'{path.rpartition("/")[2]} "{name}" not found')
        if "dryRun=" in self.path:
            return self._json(change(old or {}, body))
        return self._json(self.fake.keep(path, namespace, change(old or {}, body)))

    def do_DELETE(self) -> None:
        path, namespace, name = self.fake.route(urlsplit(self.path).path)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        old = self.fake.find(path, namespace, name) if path in PATHS else None
        if old is None:
            return self._status(404, "NotFound", f'{path.rpartition("/")[2]} "{name}" not found')
        self.fake.delete(path, old)
        return self._json({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _body(self) -> Object:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if data.startswith(docs_wire.MAGIC):
            return docs_wire.decode(data)
        return yaml.safe_load(data) or {}  # JSON is YAML


def merged(old: Object, patch: Object) -> Object:
    """Return an object with a merge patch applied (RFC 7386)."""
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, dict):
            before = new.get(key)
            new[key] = merged(before if isinstance(before, dict) else {}, value)
        else:
            new[key] = value
    return new


def discovery(path: str) -> Object | None:
    """Return what is known of groups and kinds, or None where the path asks for something else."""
    groups = sorted({group for group, *_ in RESOURCES} - {"v1"})
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
    if path == "/openapi/v3":
        found = {name_of(group): {"serverRelativeURL": f"/openapi/v3/{name_of(group)}"}
                 for group in ("v1", *groups)}  # fmt: skip
        return {"paths": found}
    if path.startswith("/openapi/v3/"):
        return validation(path.removeprefix("/openapi/v3/"))
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        listed = []
        for group in groups:
            version = {"groupVersion": group, "version": group.partition("/")[2]}
            name = group.partition("/")[0]
            listed.append({"name": name, "versions": [version], "preferredVersion": version})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    group = path.removeprefix("/apis/").removeprefix("/api/")
    if group not in {"v1", *groups}:
        return None
    kinds = [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind,
         "verbs": VERBS, "shortNames": list(short)}
        for each, plural, kind, namespaced, short in RESOURCES
        if each == group
    ]  # fmt: skip
    return {"kind": "APIResourceList", "groupVersion": group, "resources": kinds}


def name_of(group: str) -> str:
    """Return a group as OpenAPI paths name it."""
    return f"api/{group}" if group == "v1" else f"apis/{group}"


def validation(name: str) -> Object:
    """Return an OpenAPI document by which clients leave the validation of fields to the server."""
    paths = {}
    for group, plural, kind, *_ in RESOURCES:
        if name_of(group) == name:
            of, _, version = group.rpartition("/")
            one = {"group": of, "version": version, "kind": kind}
            asked = [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]
            patch = {"x-kubernetes-group-version-kind": one, "parameters": asked, "responses": {}}
            paths[f"{path_of(group, plural)}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "", "version": ""}, "paths": paths}
