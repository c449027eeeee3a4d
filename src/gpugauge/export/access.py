"""Who may read what."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path

from gpugauge.errors import SettingError

TOKEN_LIMIT_BYTES = 4096
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


def read_token(path: str) -> bytes | None:
    """Return the bearer token in a file; None where no file is set.

    Raises:
        SettingError: the file cannot be read, or holds no token.
    """
    if not path:
        return None
    try:
        with Path(path).open("rb") as stream:
            token = stream.read(TOKEN_LIMIT_BYTES + 1).strip()
    except OSError as error:
        raise SettingError(
            f"The bearer token file {path} cannot be read: {error.strerror}.",
            "Check the path and who may read it.",
        ) from error
    if not 16 <= len(token) <= TOKEN_LIMIT_BYTES or b"\n" in token:
        raise SettingError(
            f"The bearer token file {path} does not hold one token of 16 or more characters.",
            "Write one with: head -c 32 /dev/urandom | base64 > FILE",
        )
    return token


def is_loopback(address: str) -> bool:
    """Tell whether a peer's address is this host's own loopback."""
    try:
        peer = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(peer, "ipv4_mapped", None)
    return bool((mapped or peer).is_loopback)


class Access:
    """Decides about everything but /metrics and the health pages, which answer everybody."""

    def __init__(self, token: bytes | None) -> None:
        """Make the rule: with a token it alone counts, without one the loopback peer does."""
        self._token = token

    def allows(self, peer: str, host: str, authorization: str) -> bool:
        """Tell whether a request may be answered.

        Args:
            peer: the address at the other end.
            host: the Host header. A browser that was lured to a name which resolves to
                127.0.0.1 sends that name, so only local names are answered.
            authorization: the Authorization header.
        """
        if self._token is None:
            return is_loopback(peer) and _without_port(host) in LOCAL_NAMES
        scheme, _, given = authorization.partition(" ")
        given_bytes = given.strip().encode("latin-1", "replace")
        # Both parts are always compared, in constant time.
        return hmac.compare_digest(given_bytes, self._token) & (scheme.lower() == "bearer")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
