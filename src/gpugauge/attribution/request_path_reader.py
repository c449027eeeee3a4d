"""Asks the API server for what explains a pod's request; each question may be refused alone.

Beyond what attribution itself needs (pods), these rights are optional: `get` on
nodes, runtimeclasses.node.k8s.io and resourceclaims.resource.k8s.io, `list` on
events, nodes, resourceslices.resource.k8s.io and daemonsets.apps. Without one,
what it would show is told as not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from gpugauge.attribution import request_path_claims, request_path_pods
from gpugauge.attribution import request_path_json as js
from gpugauge.attribution.api_server import ApiServer, Refused
from gpugauge.attribution.request_path import (
    ClaimFacts,
    DaemonSetFacts,
    Event,
    NodeFacts,
    PodRequest,
    SliceFacts,
)
from gpugauge.errors import ForeignDataError, UnavailableError

LIMIT_BYTES = 16 << 20
SECONDS = 5.0
"""For one answer; after one that never came no more is asked."""
PAGE_ITEMS = 250
"""A node with its list of images can have 50 kB."""
ITEMS_LIMIT = 5_000
RESOURCE_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Of resource.k8s.io, newest first: v1 since Kubernetes 1.34."""
T = TypeVar("T")


class NotThereError(UnavailableError):
    """The API server knows no such object."""


class RequestPathReader:
    """One question a method.

    Every method raises UnavailableError with the reason where the server
    refuses or does not answer, and ForeignDataError where the answer is off.
    """

    def __init__(self, server: ApiServer) -> None:
        """Take the connection; it stays the caller's to close."""
        self._server = server
        self._silent = ""

    def pod(self, namespace: str, name: str) -> PodRequest:
        """Return a pod.

        Raises:
            NotThereError: there is none.
        """
        path = f"/api/v1/namespaces/{quote(namespace, '')}/pods/{quote(name, '')}"
        return request_path_pods.pod(self._get("pods", "get", path))

    def events(self, namespace: str, selector: str) -> tuple[Event, ...]:
        """Return events of a namespace by field selector, oldest first."""
        path = f"/api/v1/namespaces/{quote(namespace, '')}/events"
        found = self._list("events", path, {"fieldSelector": selector}, request_path_pods.event)
        return tuple(sorted(found, key=lambda one: one.last_unix_ns))

    def node(self, name: str) -> NodeFacts:
        """Return a node."""
        path = f"/api/v1/nodes/{quote(name, '')}"
        return request_path_pods.node(self._get("nodes", "get", path))

    def nodes(self) -> tuple[NodeFacts, ...]:
        """Return the nodes."""
        return self._list("nodes", "/api/v1/nodes", {}, request_path_pods.node)

    def node_pods(self, node: str) -> tuple[PodRequest, ...]:
        """Return the pods that are bound to a node."""
        selector = {"fieldSelector": f"spec.nodeName={node}"}
        return self._list("pods", "/api/v1/pods", selector, request_path_pods.pod)

    def runtime_class(self, name: str) -> str:
        """Return the handler of a RuntimeClass.

        Raises:
            NotThereError: there is none.
        """
        path = f"/apis/node.k8s.io/v1/runtimeclasses/{quote(name, '')}"
        return js.decode(self._get("runtimeclasses", "get", path), _RuntimeClass).handler[:253]

    def claim(self, namespace: str, name: str) -> ClaimFacts:
        """Return a ResourceClaim.

        Raises:
            NotThereError: there is none.
        """
        below = f"namespaces/{quote(namespace, '')}/resourceclaims/{quote(name, '')}"
        return request_path_claims.claim(self._resource("resourceclaims", "get", below))

    def slices(self) -> tuple[SliceFacts, ...]:
        """Return what DRA drivers offer, on all nodes."""
        for version in RESOURCE_VERSIONS:
            path = f"/apis/resource.k8s.io/{version}/resourceslices"
            try:
                return self._list("resourceslices", path, {}, request_path_claims.resource_slice)
            except NotThereError:
                continue
        raise NotThereError("the API server has no resourceslices")

    def daemon_sets(self) -> tuple[DaemonSetFacts, ...]:
        """Return the DaemonSets whose names speak of NVIDIA, GPUs or node features."""
        found = self._list(
            "daemonsets", "/apis/apps/v1/daemonsets", {}, request_path_pods.daemon_set
        )
        words = ("nvidia", "gpu", "node-feature", "nfd")
        return tuple(one for one in found if any(word in one.name for word in words))

    def _resource(self, what: str, verb: str, below: str) -> bytearray:
        for version in RESOURCE_VERSIONS:
            try:
                return self._get(what, verb, f"/apis/resource.k8s.io/{version}/{below}")
            except NotThereError:
                continue
        raise NotThereError(f"the API server has no such {what}")

    def _list(
        self, what: str, path: str, params: dict[str, str], make: Callable[[msgspec.Raw], T]
    ) -> tuple[T, ...]:
        found: list[T] = []
        more = ""
        while len(found) < ITEMS_LIMIT:
            asked = {**params, "limit": str(PAGE_ITEMS), **({"continue": more} if more else {})}
            raw, more = js.items(self._get(what, "list", path, asked))
            found += _decoded(raw, make)
            if not more:
                break
        return tuple(found[:ITEMS_LIMIT])

    def _get(
        self, what: str, verb: str, path: str, params: dict[str, str] | None = None
    ) -> bytearray:
        if self._silent:
            raise UnavailableError(self._silent)
        try:
            return self._server.get(path, params or {}, limit_bytes=LIMIT_BYTES, seconds=SECONDS)
        except Refused as error:
            if error.status == 404:
                raise NotThereError(f"the API server has no such {what}") from None
            if error.status in {401, 403}:
                raise UnavailableError(
                    f"this account may not {verb} {what} (HTTP {error.status})"
                ) from None
            raise UnavailableError(f"the API server answered HTTP {error.status}") from None
        except ForeignDataError:
            raise
        except Exception as error:  # the transport's own errors: refused, reset, time-outs
            sentence = f"the API server does not answer ({type(error).__name__})"
            if type(error).__name__ in _NEVER or isinstance(error, UnavailableError):
                self._silent = sentence
            raise UnavailableError(sentence) from None


_NEVER = ("ConnectError", "ConnectTimeout", "ReadTimeout", "PoolTimeout", "WriteTimeout")
"""What the transport raises where nobody answers."""


class _RuntimeClass(msgspec.Struct):
    handler: str = ""


def _decoded(raw: list[msgspec.Raw], make: Callable[[msgspec.Raw], T]) -> list[T]:
    found = []
    for item in raw:
        try:
            found.append(make(item))
        except ForeignDataError:
            continue  # one that is off does not hide the others
    return found
