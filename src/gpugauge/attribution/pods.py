"""The pods of this node, from the API server, in threads of their own."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gpugauge.attribution.api_server import ApiServer
from gpugauge.attribution.pod_json import decode_namespace, decode_pod
from gpugauge.attribution.pod_store import PodStore
from gpugauge.attribution.pod_view import Pod
from gpugauge.attribution.reflector import Reflector
from gpugauge.attribution.watch_limits import WatchLimits

PODS_PATH = "/api/v1/pods"
NAMESPACES_PATH = "/api/v1/namespaces"


class _PodSink:
    def __init__(self, store: PodStore) -> None:
        self._store = store
        self.replace = store.replace
        self.put = store.put

    def decode(self, data: msgspec.Raw) -> Pod:
        return decode_pod(data)

    def remove(self, pod: Pod) -> None:
        self._store.remove(pod.uid)


class _NamespaceSink:
    """Keeps only the names of namespaces that opted out."""

    def __init__(self, store: PodStore) -> None:
        self._store = store
        self._out: frozenset[str] = frozenset()

    def decode(self, data: msgspec.Raw) -> tuple[str, bool]:
        return decode_namespace(data)

    def replace(self, items: list[tuple[str, bool]]) -> None:
        self._publish(frozenset(name for name, off in items if off))

    def put(self, item: tuple[str, bool]) -> None:
        name, off = item
        self._publish(self._out | {name} if off else self._out - {name})

    def remove(self, item: tuple[str, bool]) -> None:
        self._publish(self._out - {item[0]})

    def _publish(self, out: frozenset[str]) -> None:
        self._out = out
        self._store.opt_out(out)


class PodWatch:
    """Fills a store with this node's pods, and with the namespaces that opted out."""

    def __init__(
        self,
        store: PodStore,
        node_name: str,
        connect: Callable[[float], ApiServer],
        *,
        limits: WatchLimits | None = None,
    ) -> None:
        """Watch the pods of `node_name`.

        Args:
            store: Where they go.
            node_name: As in `spec.nodeName`.
            connect: Makes a connection, given the longest silence inside a list.
            limits: Times and bounds.
        """
        limits = limits or WatchLimits()

        def open_server() -> ApiServer:
            return connect(limits.read_seconds)

        self.pods = Reflector(
            PODS_PATH,
            _PodSink(store),
            open_server,
            params={"fieldSelector": f"spec.nodeName={node_name}"},
            limits=limits,
        )
        self.namespaces = Reflector(
            NAMESPACES_PATH, _NamespaceSink(store), open_server, limits=limits
        )

    def start(self) -> None:
        """Start both threads."""
        self.pods.start()
        self.namespaces.start()

    def stop(self) -> None:
        """End both threads."""
        self.pods.stop()
        self.namespaces.stop()
