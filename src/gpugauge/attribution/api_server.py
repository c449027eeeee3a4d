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

from gpugauge.errors import ForeignDataError, UnavailableError

CONNECT_SECONDS = 10.0


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
        service_account: str = "",
        read_seconds: float = 15.0,
    ) -> None:
        """Find the server: a kubeconfig file, or the service account of this pod.

        Args:
            kubeconfig: Path of a kubeconfig; "" for the service account, then $KUBECONFIG.
            service_account: Directory of the account's token; "" for the usual one.
            read_seconds: Longest silence inside one answer.

        Raises:
            UnavailableError: lightkube is not installed, or no configuration was found.
        """
        self._read_seconds = read_seconds
        self._socket: socket.socket | None = None
        self._interrupted = False
        self._client: Any = _open(kubeconfig, service_account)

    def get(
        self, path: str, params: Mapping[str, str], *, limit_bytes: int, seconds: float
    ) -> bytearray:
        """Return the body of an answer.

        Raises:
            Refused: The server answered with an error status.
            TooLarge: The body exceeds `limit_bytes`.
            UnavailableError: It was not complete after `seconds`.
        """
        until = time.monotonic() + seconds
        body = bytearray()
        for chunk in self._stream(path, params, self._read_seconds):
            body += chunk
            if len(body) > limit_bytes:
                raise TooLarge(f"An answer of the API server exceeds {limit_bytes} bytes.")
            if time.monotonic() > until:
                raise UnavailableError(f"The API server did not finish an answer in {seconds:g} s.")
        return body

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
        request = self._client.build_request(
            "GET",
            path,
            params=dict(params),
            # Uncompressed: a small answer cannot unfold into a huge one.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=(CONNECT_SECONDS, read_seconds, CONNECT_SECONDS, CONNECT_SECONDS),
            extensions={"trace": self._connected},
        )
        response = self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise _refused(response.status_code, path)
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


def _open(kubeconfig: str, service_account: str) -> Any:
    try:
        from lightkube.config.client_adapter import Client, ConnectionParams
        from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig
    except ImportError:
        raise UnavailableError(
            "Pods cannot be watched: lightkube is not installed.",
            "Install gpugauge[kubernetes].",
        ) from None
    try:
        if kubeconfig:
            config = KubeConfig.from_file(kubeconfig)
        else:
            config = KubeConfig.from_env(service_account or SERVICE_ACCOUNT)
        chosen = config.get()
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


def _refused(status: int, path: str) -> Refused:
    resource = path.rpartition("/")[2]
    if status in {401, 403}:
        return Refused(
            status,
            f"The API server refuses to list {resource} (HTTP {status}).",
            f"Give the service account `list` and `watch` on {resource}.",
        )
    return Refused(status, f"The API server answered HTTP {status} for {resource}.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200] or type(error).__name__
