"""What the agent writes to the API server: Events on pods, and annotations of its node.

One connection, opened when there is something to write. A name that could lead to another
path than the one it names is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpugauge.attribution.api_server import ApiServer
from gpugauge.attribution.cluster import Cluster
from gpugauge.errors import ForeignDataError

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
NODE = "/api/v1/nodes/{}"
WRITE_SECONDS = 10.0
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class ClusterWriter:
    """Writes, for one thread."""

    def __init__(self, cluster: Cluster, seconds: float = WRITE_SECONDS) -> None:
        """Take how the API server is reached, and how long one write may take."""
        self._cluster = cluster
        self._seconds = seconds
        self._server: ApiServer | None = None
        self._closed = False

    def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create an Event.

        Raises:
            Refused: The server answered with an error status; 409: it is there already.
            ForeignDataError: A name is none.
            UnavailableError: There is no way to the server, or it is too slow.
        """
        self._write("POST", EVENTS.format(_checked(namespace)), event, "events.events.k8s.io")

    def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Change an Event, or with an empty patch only read it; return it as it is now.

        Raises:
            Refused: The server answered with an error status; 404: it has expired.
            ForeignDataError: A name is none, or the answer is no object.
            UnavailableError: There is no way to the server, or it is too slow.
        """
        path = f"{EVENTS.format(_checked(namespace))}/{_checked(name)}"
        return self._write("PATCH", path, patch, "events.events.k8s.io")

    def annotate_node(self, key: str, value: str | None) -> None:
        """Set an annotation of this node, or with None remove it; nothing else is touched.

        Raises:
            Refused: The server answered with an error status.
            ForeignDataError: The node's name is none.
            UnavailableError: There is no way to the server, or it is too slow.
        """
        patch = {"metadata": {"annotations": {key: value}}}
        self._write("PATCH", NODE.format(_checked(self._cluster.node_name)), patch, "nodes")

    def rest(self) -> None:
        """Close the connection until the next write."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def interrupt(self) -> None:
        """End a write that waits, and all that follow, with an error; for any thread."""
        self._closed = True
        server = self._server
        if server is not None:
            server.interrupt()

    def _write(self, method: str, path: str, body: Mapping[str, Any], what: str) -> dict[str, Any]:
        if self._server is None:
            self._server = self._cluster.connect(self._seconds)
        server = self._server
        if self._closed:
            server.interrupt()
        data = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer = server.write(method, path, data, what=what, seconds=self._seconds)
        except BaseException:
            self.rest()
            raise
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ForeignDataError(f"The API server answered no object for {what}.")
        return found


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ForeignDataError(f"{name[:64]!r} is no name of an object.")
    return name
