"""One call of gRPC over a unix socket: one question, one answer, one connection.

HTTP/2 is the library h2's; what gRPC adds to it for a call without streams is a header of five
bytes and a status at the end. gRPC's own library does more, and takes 12 MiB and five threads
of the agent for a question every ten seconds. A connection for each call means that none is
kept alive, and a kubelet that starts anew is no special case.

https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

WINDOW_BYTES = 1 << 20
READ_BYTES = 64 << 10
HEADER_BYTES = 5
"""Before a message: whether it is compressed, and its size."""
SENDABLE_BYTES = 1 << 14
"""Of a question: what any peer takes at once."""

STATUS = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
    "UNAUTHENTICATED",
)  # fmt: skip
"""Names of gRPC's status codes, by number."""


class CallError(Exception):
    """A call without an answer; `status` is one of STATUS."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class TooLargeError(CallError):
    """The answer is larger than the caller takes."""

    def __init__(self) -> None:
        super().__init__("RESOURCE_EXHAUSTED")


def unary_call(
    path: Path, method: str, question: bytes, *, deadline_seconds: float, limit_bytes: int
) -> bytes:
    """Return the answer to one question.

    Args:
        path: Of the socket.
        method: `/package.Service/Method`.
        question: The message, encoded; up to SENDABLE_BYTES.
        deadline_seconds: Longest wait for all of it.
        limit_bytes: Of the largest answer that is taken.

    Raises:
        CallError: There was no answer, or none within the bounds.
    """
    deadline = time.monotonic() + deadline_seconds
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            _within(connection, deadline)
            connection.connect(str(path))
            return _Call(connection, deadline, limit_bytes).ask(method, question)
    except TimeoutError:
        raise CallError("DEADLINE_EXCEEDED") from None
    except OSError:
        raise CallError("UNAVAILABLE") from None
    except H2Error:  # no HTTP/2, or none that is right
        raise CallError("UNAVAILABLE") from None


def _within(connection: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


@dataclass(slots=True)
class _Answer:
    """What has come so far."""

    data: bytearray = field(default_factory=bytearray)
    headers: dict[bytes, bytes] = field(default_factory=dict)
    ended: bool = False


class _Call:
    """One call on one connection."""

    def __init__(self, connection: socket.socket, deadline: float, limit_bytes: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._limit_bytes = limit_bytes
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        ours = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES}
        self._http.local_settings = Settings(client=True, initial_values=ours)

    def ask(self, method: str, question: bytes) -> bytes:
        http = self._http
        http.initiate_connection()
        http.increment_flow_control_window(WINDOW_BYTES)
        stream = http.get_next_available_stream_id()
        left_ms = max(1, int((self._deadline - time.monotonic()) * 1000))
        http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "gpugauge"),
                ("grpc-timeout", f"{left_ms}m"),
            ],
        )
        http.send_data(stream, b"\0" + len(question).to_bytes(4, "big") + question, end_stream=True)
        answer = _Answer()
        while not answer.ended:
            self._send()
            _within(self._connection, self._deadline)
            data = self._connection.recv(READ_BYTES)
            if not data:
                raise CallError("UNAVAILABLE")
            for event in http.receive_data(data):
                self._take(event, answer)
        return self._message(answer)

    def _send(self) -> None:
        data = self._http.data_to_send()
        if data:
            _within(self._connection, self._deadline)
            # A peer that has answered may be gone; what it sent is still there to read.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._connection.sendall(data)

    def _take(self, event: events.Event, answer: _Answer) -> None:
        if isinstance(event, events.ResponseReceived | events.TrailersReceived):
            answer.headers |= {bytes(name): bytes(value) for name, value in event.headers}
        elif isinstance(event, events.DataReceived):
            answer.data += event.data
            if len(answer.data) > self._limit_bytes + HEADER_BYTES:
                raise TooLargeError
            self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            answer.ended = True
        elif isinstance(event, events.StreamReset | events.ConnectionTerminated):
            raise CallError("UNAVAILABLE")

    def _message(self, answer: _Answer) -> bytes:
        given = answer.headers.get(b"grpc-status", b"")
        number = int(given) if given.isdigit() and len(given) <= 2 else len(STATUS)
        if number:
            raise CallError(STATUS[number] if number < len(STATUS) else "UNKNOWN")
        data = answer.data
        size = int.from_bytes(data[1:HEADER_BYTES], "big")
        # A compressed answer was not asked for, and a second one neither.
        if len(data) < HEADER_BYTES or data[0] or size != len(data) - HEADER_BYTES:
            raise CallError("INTERNAL")
        return bytes(data[HEADER_BYTES:])
