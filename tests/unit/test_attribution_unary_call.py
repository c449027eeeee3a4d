"""One gRPC call: against a server that says anything, whole or damaged, and within bounds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugauge.attribution.unary_call import CallError, TooLargeError, unary_call

METHOD = "/v1.Any/List"
Answer = Callable[[H2Connection, socket.socket], None]


@contextmanager
def server(path: Path, answer: Answer) -> Iterator[list[bytes]]:
    """Answer one call, after it was asked."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                http = H2Connection(H2Configuration(client_side=False))
                http.initiate_connection()
                peer.sendall(http.data_to_send())
                ended = False
                while not ended:
                    data = peer.recv(65536)
                    heard.append(data)
                    happened = http.receive_data(data)
                    ended = not data or any(isinstance(one, StreamEnded) for one in happened)
                with suppress(OSError):  # the caller had enough
                    answer(http, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            thread.join(60)
    path.unlink()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def saying(data: bytes, status: str = "0", code: str = "200") -> Answer:
    def answer(http: H2Connection, peer: socket.socket) -> None:
        http.send_headers(1, [(":status", code), ("content-type", "application/grpc")])
        left = data
        while left:
            room = min(http.local_flow_control_window(1), http.max_outbound_frame_size)
            if room:
                http.send_data(1, left[:room])
                left = left[room:]
                continue
            peer.sendall(http.data_to_send())
            more = peer.recv(65536)
            if not more:
                return
            http.receive_data(more)
        http.send_headers(1, [("grpc-status", status)], end_stream=True)
        peer.sendall(http.data_to_send())

    return answer


def call(path: Path, limit_bytes: int = 1 << 24, deadline_seconds: float = 30.0) -> bytes:
    return unary_call(
        path, METHOD, b"q", deadline_seconds=deadline_seconds, limit_bytes=limit_bytes
    )


@pytest.mark.parametrize("size", [0, 1, 16_384, 3 << 20])
def test_an_answer_of_any_size(tmp_path: Path, size: int) -> None:
    message = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with server(tmp_path / "s", saying(framed(message))):
        assert call(tmp_path / "s") == message


def test_an_answer_beyond_the_limit(tmp_path: Path) -> None:
    with server(tmp_path / "s", saying(framed(b"x" * 100_000))), pytest.raises(TooLargeError):
        call(tmp_path / "s", limit_bytes=99_999)


@pytest.mark.parametrize(
    ("status", "name"), [("8", "RESOURCE_EXHAUSTED"), ("17", "UNKNOWN"), ("x", "UNKNOWN")]
)
def test_a_status_is_named(tmp_path: Path, status: str, name: str) -> None:
    with server(tmp_path / "s", saying(b"", status)), pytest.raises(CallError, match=name):
        call(tmp_path / "s")


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\0", b"\1\0\0\0\0", framed(b"a") + framed(b"b"), framed(b"abc")[:-1]]
)
def test_what_is_no_single_message_is_refused(tmp_path: Path, data: bytes) -> None:
    with server(tmp_path / "s", saying(data)), pytest.raises(CallError, match="INTERNAL"):
        call(tmp_path / "s")


def test_a_server_that_goes_away(tmp_path: Path) -> None:
    def goodbye(http: H2Connection, peer: socket.socket) -> None:
        http.close_connection()
        peer.sendall(http.data_to_send())

    for answer in (goodbye, lambda _http, _peer: None):
        with server(tmp_path / "s", answer), pytest.raises(CallError, match="UNAVAILABLE"):
            call(tmp_path / "s")
    with pytest.raises(CallError, match="UNAVAILABLE"):
        call(tmp_path / "s")


def test_a_server_that_is_silent_or_slow_does_not_hold_the_caller(tmp_path: Path) -> None:
    done = threading.Event()

    def drip(http: H2Connection, peer: socket.socket) -> None:
        while not done.wait(0.01):  # each byte would begin a time-out of the socket anew
            http.ping(b"12345678")
            peer.sendall(http.data_to_send())

    with server(tmp_path / "s", drip):
        try:
            with pytest.raises(CallError, match="DEADLINE_EXCEEDED"):
                call(tmp_path / "s", deadline_seconds=0.2)
        finally:
            done.set()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_an_error(tmp_path_factory, data: bytes) -> None:
    def anything(_http: H2Connection, peer: socket.socket) -> None:
        peer.sendall(data)

    path = tmp_path_factory.mktemp("u") / "s"
    with server(path, anything), pytest.raises(CallError):
        call(path)
