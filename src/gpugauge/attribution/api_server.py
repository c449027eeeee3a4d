"""One connection to the API server: lightkube's transport, our bounds.

lightkube finds the server, checks its certificate and reads the service account's
token again when it was rotated. Its own list and watch read answers of any size,
wait for ever on a silent server and end on an error in the stream, so the reading
is done here.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from gpugauge.errors import ForeignDataError, GpugaugeError, UnavailableError

CONNECT_SECONDS = 10.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
"""Metadata alone, `List` in place of {} for lists; a server that cannot sends whole objects."""
ANSWER_BYTES = 4 << 20
"""Longest answer to a write: the object, and etcd refuses those above 1.5 MiB."""


class Refused(UnavailableError):
    """The API server answered with an error status."""

    def __init__(self, status: int, sentence: str, next_step: str = "") -> None:
        """Take the HTTP status beside the sentence."""
        super().__init__(sentence, next_step)
        self.status = status


class TooLarge(ForeignDataError):
    """An answer was larger than what is read."""


class ApiServer:
    """A connection, made anew for each list so that rotated certificates are read too."""

    def __init__(
        self,
        *,
        kubeconfig: str = "",
        config: Mapping[str, Any] | None = None,
        service_account: str = "",
        read_seconds: float = 15.0,
        metadata_only: bool = False,
    ) -> None:
        """Find the server: a kubeconfig file, or the service account of this pod.

        Args:
            kubeconfig: Path of a kubeconfig; "" for the service account, then $KUBECONFIG.
            config: A kubeconfig as an object, in place of both.
            service_account: Directory of the account's token; "" for the usual one.
            read_seconds: Longest silence inside one answer.
            metadata_only: Lists and watches ask for the metadata of objects alone.

        Raises:
            UnavailableError: lightkube is not installed, or no configuration was found.
        """
        self._read_seconds = read_seconds
        self._metadata_only = metadata_only
        self._socket: socket.socket | None = None
        self._interrupted = False
        self._client: Any = _open(kubeconfig, config, service_account)

    def get(
        self, path: str, params: Mapping[str, str], *, limit_bytes: int, seconds: float
    ) -> bytearray:
        """Return the body of an answer.

        Raises:
            Refused: The server answered with an error status.
            TooLarge: The body exceeds `limit_bytes`.
            UnavailableError: It was not complete after `seconds`.
        """
        return _whole(self._stream(path, params, self._read_seconds), limit_bytes, seconds)

    def write(self, method: str, path: str, body: bytes, *, what: str, seconds: float) -> bytearray:
        """Create an object (`POST`) or change one by a JSON merge patch (`PATCH`).

        Args:
            method: `POST` or `PATCH`.
            path: Of the collection, or of the object.
            body: JSON.
            what: The resource, as rights name it.
            seconds: Longest time until the answer is complete.

        Returns:
            The object as it is now.

        Raises:
            Refused: The server answered with an error status.
            TooLarge: The answer is larger than an object can be.
            UnavailableError: It was not complete in time.
        """
        headers = {"Content-Type": JSON if method == "POST" else MERGE_PATCH}
        answer = self._exchange(method, path, {}, self._read_seconds, headers=headers, body=body)
        verb = "create" if method == "POST" else "patch"
        try:
            return _whole(answer, ANSWER_BYTES, seconds)
        except Refused as refused:
            raise _refused(refused.status, what, verb) from None

    def lines(
        self, path: str, params: Mapping[str, str], *, limit_bytes: int, silence_seconds: float
    ) -> Iterator[bytes]:
        """Yield b"" once the server accepted, then the lines of the stream until it ends.

        Raises:
            Refused: The server answered with an error status.
            TooLarge: A line exceeds `limit_bytes`.
        """
        rest = bytearray()
        for chunk in self._stream(path, params, silence_seconds):
            if not chunk:
                yield b""
            rest += chunk
            if b"\n" in chunk:
                *whole, rest = rest.split(b"\n")
                yield from (bytes(line) for line in whole if line.strip())
            if len(rest) > limit_bytes:
                raise TooLarge(f"An event of the API server exceeds {limit_bytes} bytes.")
        if rest.strip():
            yield bytes(rest)

    def interrupt(self) -> None:
        """End what waits now, and all that follows, with an error; for another thread to call."""
        self._interrupted = True
        waiting = self._socket
        if waiting is not None:
            try:
                waiting.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it ended by itself

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _stream(self, path: str, params: Mapping[str, str], read_seconds: float) -> Iterator[bytes]:
        kind = "" if params.get("watch") == "true" else "List"
        headers = {"Accept": METADATA.format(kind)} if self._metadata_only else {}
        return self._exchange("GET", path, params, read_seconds, headers=headers)

    def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        read_seconds: float,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
    ) -> Iterator[bytes]:
        request = self._client.build_request(
            method,
            path,
            params=dict(params),
            content=body,
            # Uncompressed: a small answer cannot unfold into a huge one.
            headers={"Accept": JSON, "Accept-Encoding": "identity", **headers},
            timeout=(CONNECT_SECONDS, read_seconds, CONNECT_SECONDS, CONNECT_SECONDS),
            extensions={"trace": self._connected},
        )
        response = self._client.send(request, stream=True)
        try:
            if response.status_code not in {200, 201}:
                raise _refused(response.status_code, path.rpartition("/")[2], "list")
            yield b""  # accepted
            # Without a chunk size: with one, events would wait until a chunk is full.
            yield from response.iter_raw()
        finally:
            response.close()

    def _connected(self, event: str, info: Mapping[str, Any]) -> None:
        # The transport tells each step; a step that connects, or adds TLS, returns a stream.
        stream: Any = info.get("return_value")
        if event.startswith("connection.") and hasattr(stream, "get_extra_info"):
            self._socket = stream.get_extra_info("socket")
            if self._interrupted:
                self.interrupt()


def _open(kubeconfig: str, config: Mapping[str, Any] | None, service_account: str) -> Any:
    try:
        from lightkube.config.client_adapter import Client, ConnectionParams
        from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig
    except ImportError:
        raise UnavailableError(
            "Pods cannot be watched: lightkube is not installed.",
            "Install gpugauge[kubernetes].",
        ) from None
    try:
        if config is not None:
            ways = KubeConfig.from_dict(dict(config))
        elif kubeconfig:
            ways = KubeConfig.from_file(kubeconfig)
        else:
            ways = KubeConfig.from_env(service_account or SERVICE_ACCOUNT)
        chosen = ways.get()
        if chosen is None or not chosen.user:
            raise UnavailableError("The kubeconfig names no user.", "Choose a context with one.")
        return Client(chosen, ConnectionParams())
    except UnavailableError:
        raise
    except Exception as error:  # a file of any shape: yaml, msgspec, ssl and key errors
        raise UnavailableError(
            f"No way to the API server was found: {_first_line(error)}.",
            "Give --kubernetes-kubeconfig (explain: --kubeconfig), or a service account.",
        ) from None


def sentence_of(error: Exception) -> str:
    """Return why the API server could not be asked, whatever the transport raised."""
    if isinstance(error, GpugaugeError):
        return str(error)
    text = (str(error).splitlines() or [""])[0][:200]
    return f"The API server does not answer ({type(error).__name__}{': ' if text else ''}{text})."


def _whole(chunks: Iterator[bytes], limit_bytes: int, seconds: float) -> bytearray:
    until = time.monotonic() + seconds
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > limit_bytes:
            raise TooLarge(f"An answer of the API server exceeds {limit_bytes} bytes.")
        if time.monotonic() > until:
            raise UnavailableError(f"The API server did not finish an answer in {seconds:g} s.")
    return body


def _refused(status: int, resource: str, verb: str) -> Refused:
    if status in {401, 403}:
        right = "`list` and `watch`" if verb == "list" else f"`{verb}`"
        return Refused(
            status,
            f"The API server refuses to {verb} {resource} (HTTP {status}).",
            f"Give the service account {right} on {resource}.",
        )
    return Refused(status, f"The API server answered HTTP {status} for {resource}.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
