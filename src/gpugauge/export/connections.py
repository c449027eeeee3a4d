"""Bounds on connections: how many, how many of one peer, how long, how large."""

from __future__ import annotations

import io
import socket
import threading
import time

REQUEST_LIMIT_BYTES = 16 * 1024
"""Request line and headers. Browsers with large cookies stay below 8 KiB."""


class Slots:
    """Room for so many connections, of which one peer gets a quarter."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._per_peer = max(1, total // 4)
        self._lock = threading.Lock()
        self._by_peer: dict[str, int] = {}

    def take(self, peer: str) -> bool:
        """Take a slot for a peer; False where it, or everybody, has none left."""
        with self._lock:
            held = self._by_peer.get(peer, 0)
            if held >= self._per_peer or sum(self._by_peer.values()) >= self._total:
                return False
            self._by_peer[peer] = held + 1
            return True

    def give_back(self, peer: str) -> None:
        """Give a slot back."""
        with self._lock:
            held = self._by_peer.pop(peer) - 1
            if held:
                self._by_peer[peer] = held


class RequestReader(io.RawIOBase):
    """The bytes of one request: all of them by one deadline, and not too many.

    A socket's own time-out begins anew with every byte, so a peer that sends a
    byte now and then would hold its connection for ever.
    """

    def __init__(self, connection: socket.socket, timeout_seconds: float) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + timeout_seconds
        self._left_bytes = REQUEST_LIMIT_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read what is there.

        Raises:
            TimeoutError: the deadline has passed.
            ConnectionAbortedError: the request is too large.
        """
        left_seconds = self._deadline - time.monotonic()
        if left_seconds <= 0:
            raise TimeoutError("the request took too long to arrive")
        room = min(len(buffer), self._left_bytes)
        if room == 0:
            raise ConnectionAbortedError("the request is too large")
        self._connection.settimeout(left_seconds)
        count = self._connection.recv_into(memoryview(buffer)[:room])
        self._left_bytes -= count
        return count
