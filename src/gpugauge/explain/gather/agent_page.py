"""The agent of this node, asked over HTTP: its newest snapshot, or its own explanation."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from gpugauge.errors import SettingError, UnavailableError

LIMIT_BYTES = 64 << 20
SECONDS = 15.0


def ask(url: str, path: str, token: bytes | None = None) -> bytes:
    """Return the body of a page of the agent.

    Args:
        url: `http://127.0.0.1:9836`; only http, as the agent serves no other.
        path: With its query.
        token: The bearer token, where the agent wants one.

    Raises:
        SettingError: the URL is none.
        UnavailableError: nobody answers, or the agent refuses.
    """
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or 9836
    except ValueError:
        host, port = None, 0
    if parts.scheme != "http" or not host:
        raise SettingError(f"{url} is no URL of an agent.", "Give one as http://127.0.0.1:9836.")
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    headers = {"Authorization": f"Bearer {token.decode('latin-1')}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(LIMIT_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UnavailableError(f"no agent answers at {host}:{port} ({reason})") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise UnavailableError(f"the agent at {host}:{port} answered HTTP {answer.status}")
    if len(body) > LIMIT_BYTES:
        raise UnavailableError(f"the agent's answer exceeds {LIMIT_BYTES >> 20} MiB")
    return body
