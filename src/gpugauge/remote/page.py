"""One page of an agent, over HTTP, within bounds of size and time."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

from gpugauge.errors import SettingError, UnavailableError

LIMIT_BYTES = 64 << 20
SECONDS = 15.0
CHUNK_BYTES = 256 << 10
ERROR_LIMIT_BYTES = 200


class PageError(UnavailableError):
    """The agent answered, with an error status."""

    def __init__(self, status: int, sentence: str, next_step: str = "") -> None:
        """Take the HTTP status beside the sentence."""
        super().__init__(sentence, next_step)
        self.status = status


def ask(
    url: str,
    path: str,
    token: bytes | None = None,
    *,
    where: str = "",
    limit_bytes: int = LIMIT_BYTES,
    seconds: float = SECONDS,
) -> bytes:
    """Return the body of a page of the agent.

    Args:
        url: `http://127.0.0.1:9836`; https for an agent behind a proxy, as it serves http alone.
        path: With its query.
        token: The bearer token, where the agent wants one.
        where: Which agent it is, for people; "" for the host and port of the URL.
        limit_bytes: A larger answer is refused.
        seconds: For the whole answer, however it drips.

    Raises:
        SettingError: the URL is none.
        PageError: the agent answers with another status than 200.
        UnavailableError: nobody answers, or not within the bounds.
    """
    parts = urlsplit(url)
    try:
        secure = parts.scheme == "https"
        host, port = parts.hostname, parts.port or (443 if secure else 9836)
    except ValueError:
        host, port = None, 0
    if parts.scheme not in ("http", "https") or not host:
        raise SettingError(f"{url[:120]} is no URL of an agent.", "Give one as http://HOST:9836.")
    where = where or f"{host}:{port}"
    until = time.monotonic() + seconds
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(host, port, timeout=seconds)
    headers = {"Authorization": f"Bearer {token.decode('latin-1')}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            body = _read(connection, answer, limit_bytes, until)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or _REASONS.get(type(error)) or str(error)
        raise UnavailableError(f"no agent answers at {where} ({reason[:120]})") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise _refused(answer.status, body, where)
    return body


def _read(
    connection: http.client.HTTPConnection,
    answer: http.client.HTTPResponse,
    limit_bytes: int,
    until: float,
) -> bytes:
    too_large = UnavailableError(f"the agent's answer exceeds {limit_bytes >> 20} MiB")
    if (answer.length or 0) > limit_bytes:
        raise too_large
    body = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        chunk = answer.read1(CHUNK_BYTES)
        if not chunk:
            break
        body += chunk
        if len(body) > limit_bytes:
            raise too_large
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return bytes(body)


_REASONS = {
    TimeoutError: "timed out",
    http.client.IncompleteRead: "the answer ends too early",
    http.client.RemoteDisconnected: "the connection ended without an answer",
}


def _refused(status: int, body: bytes, where: str) -> PageError:
    if status in (401, 403):
        return PageError(
            status,
            f"the agent at {where} wants its bearer token (HTTP {status})",
            "Give its file with --listen-bearer-token-file.",
        )
    text = body[:ERROR_LIMIT_BYTES].decode("ascii", "replace").strip()
    said = f": {text}" if text.isprintable() and text else ""
    return PageError(status, f"the agent at {where} answered HTTP {status}{said}")
