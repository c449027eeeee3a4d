"""The HTTP server: what it answers, to whom, and that slow or rude peers harm nobody."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec.snapshot import load_snapshot
from gpugauge.errors import SettingError, UnavailableError
from gpugauge.export.access import Access, is_loopback
from gpugauge.export.connections import REQUEST_LIMIT_BYTES, Slots
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Answer, Page, Request, Server
from gpugauge.export.pages import standard_pages
from gpugauge.settings import ListenSettings, Settings
from tests.support.snapshots import busy_snapshot, health, snapshot

TOKEN = "correct-horse-battery-staple"


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Running:
    """A server on a port of its own, with what it shows."""

    def __init__(self, **listen: object) -> None:
        values = {"address": "127.0.0.1", "port": 0, "timeout_seconds": 2.0} | listen
        self.settings = Settings(listen=ListenSettings(**values))  # type: ignore[arg-type]
        self.clock = Clock()
        self.exposition = Exposition(self.settings.series, self.clock)
        pages = standard_pages(self.exposition, self.settings)
        pages["/broken"] = Page(self._broken)
        pages["/tree/"] = Page(lambda request: Answer(request.path.encode()), prefix=True)
        self.server = Server(self.settings.listen, pages)
        self.server.start()

    @staticmethod
    def _broken(_: Request) -> Answer:
        raise RuntimeError("on purpose")

    def ask(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as peer:
            received = b""
            try:
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                while part := peer.recv(65536):
                    received += part
            except OSError:
                pass  # the server may hang up before a large request has all left
            return received


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.server.close()


def test_before_the_first_tick(running: Running) -> None:
    assert running.ask("/metrics")[::2] == (200, b"")
    assert running.ask("/healthz")[0] == 200
    assert running.ask("/readyz")[0] == 503
    assert running.ask("/api/v1/snapshot")[0] == 503


def test_metrics_plain_and_compressed_are_the_same(running: Running) -> None:
    running.exposition.publish(busy_snapshot())
    status, headers, plain = running.ask("/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"gpugauge_launches_total{" in plain
    _, headers, packed = running.ask("/metrics", Accept_Encoding="deflate, gzip;q=0.5")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    _, headers, refused = running.ask("/metrics", Accept_Encoding="gzip;q=0.0")
    assert "Content-Encoding" not in headers
    assert refused == plain


def test_the_snapshot_is_whole(running: Running) -> None:
    running.exposition.publish(busy_snapshot())
    status, headers, body = running.ask("/api/v1/snapshot")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert load_snapshot(body) == busy_snapshot()
    assert json.loads(body)["node"] == "node-7"


def test_health_fails_when_the_tick_stalls(running: Running) -> None:
    running.exposition.publish(snapshot())
    running.clock.seconds += 15
    assert running.ask("/healthz")[0] == 200
    running.clock.seconds += 0.5
    status, _, body = running.ask("/healthz")
    assert (status, body) == (503, b"the last tick ended 16 s ago\n")
    running.exposition.publish(snapshot())
    assert running.ask("/healthz")[0] == 200


def test_ready_after_the_first_scan(running: Running) -> None:
    running.exposition.publish(snapshot(agent=health(ready=False)))
    assert running.ask("/readyz")[0] == 503
    running.exposition.publish(snapshot())
    assert running.ask("/readyz")[::2] == (200, b"ok\n")


def test_what_must_be_fresh_is_asked_for_and_probes_of_health_ask_nothing(running: Running) -> None:
    running.exposition.publish(snapshot(number=3))
    asked: list[int] = []

    def renew() -> None:
        asked.append(1)
        running.exposition.publish(snapshot(number=5 + len(asked)))

    running.exposition.renew = renew
    for path in ("/healthz", "/readyz"):
        assert running.ask(path)[0] == 200
    assert not asked
    assert load_snapshot(running.ask("/api/v1/snapshot")[2]).number == 6
    for path in ("/metrics", "/api/v1/findings"):
        assert running.ask(path)[0] == 200
    assert len(asked) == 3


def test_head_has_the_length_and_no_body(running: Running) -> None:
    running.exposition.publish(snapshot())
    length = len(running.ask("/metrics")[2])
    status, headers, body = running.ask("/metrics", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(length), b"")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/api/v1", "/%00", "/..%2f..%2fetc/passwd"])
def test_no_such_page(running: Running, path: str) -> None:
    assert running.ask(path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_refused(running: Running, method: str) -> None:
    status, headers, _ = running.ask("/metrics", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_a_page_that_fails_is_a_500_and_the_server_lives(running: Running) -> None:
    assert running.ask("/broken")[0] == 500
    assert running.ask("/healthz")[0] == 200


def test_pages_below_a_prefix(running: Running) -> None:
    assert running.ask("/tree/a/b?c=1")[::2] == (200, b"/tree/a/b")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET //[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET /" + b"a" * (REQUEST_LIMIT_BYTES * 4) + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
)
def test_rude_requests_get_an_error_or_nothing(running: Running, data: bytes) -> None:
    running.exposition.publish(snapshot())
    answer = running.raw(data)
    assert b"gpugauge_agent_up" not in answer
    assert running.ask("/healthz")[0] == 200


@given(st.binary(max_size=300))
def test_any_bytes_leave_the_server_alive(server_for_all: Running, data: bytes) -> None:
    server_for_all.raw(data)
    assert server_for_all.ask("/healthz")[0] == 200


@pytest.fixture(scope="module")
def server_for_all() -> Iterator[Running]:
    made = Running()
    yield made
    made.server.close()


def test_silent_peers_hold_only_their_share() -> None:
    running = Running(connections=8, timeout_seconds=30.0, address="0.0.0.0")
    silent = []
    try:
        for _ in range(11):  # from 127.0.0.2, which gets a quarter of 8
            peer = socket.socket()
            peer.bind(("127.0.0.2", 0))
            peer.connect(("127.0.0.1", running.server.port))
            peer.sendall(b"GET /metrics HTTP/1.1\r\n")
            silent.append(peer)
        answers = [peer.recv(12) if index >= 2 else b"" for index, peer in enumerate(silent)]
        assert set(answers[2:]) == {b"HTTP/1.1 503"}
        assert running.ask("/healthz")[0] == 200  # from 127.0.0.1
    finally:
        for peer in silent:
            peer.close()
        running.server.close()


def test_a_dripping_peer_is_cut_off_by_the_deadline() -> None:
    running = Running(timeout_seconds=0.3)
    try:
        with socket.create_connection(("127.0.0.1", running.server.port), timeout=20) as peer:
            peer.settimeout(0.05)
            for _ in range(400):  # a byte every 50 ms: each alone is well within the time-out
                try:
                    peer.send(b"G")
                    if peer.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
            else:
                pytest.fail("the peer was never cut off")
    finally:
        running.server.close()


def test_slots() -> None:
    slots = Slots(8)
    assert [slots.take("a") for _ in range(3)] == [True, True, False]
    assert [slots.take(peer) for peer in "bbccdde"] == [True] * 6 + [False]
    slots.give_back("a")
    assert slots.take("e")


def test_a_port_in_use_is_said_with_the_next_step(running: Running) -> None:
    with pytest.raises(UnavailableError, match="in use") as refused:
        Server(replace(running.settings.listen, port=running.server.port), {})
    assert "--listen-port" in refused.value.next_step


def test_an_address_of_another_host_is_said() -> None:
    with pytest.raises(UnavailableError, match=r"192\.0\.2\.1 port 0 cannot be listened on"):
        Server(ListenSettings(address="192.0.2.1", port=0), {})


def test_ipv6_and_ipv4_together() -> None:
    running = Running(address="::")
    try:
        assert running.ask("/healthz")[0] == 200  # over IPv4, as a mapped address
        assert running.ask("/broken", Host="localhost")[0] == 500  # and it is loopback
        with socket.create_connection(("::1", running.server.port), timeout=20) as peer:
            peer.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert peer.recv(15) == b"HTTP/1.1 200 OK"
    finally:
        running.server.close()


# ---- access ------------------------------------------------------------------


def test_a_name_that_a_browser_was_lured_to_is_refused(running: Running) -> None:
    running.exposition.publish(snapshot())
    assert running.ask("/api/v1/snapshot", Host="evil.example:9836")[0] == 403
    assert running.ask("/api/v1/snapshot", Host="localhost:9836")[0] == 200
    assert running.ask("/metrics", Host="evil.example")[0] == 200


def test_with_a_token_it_alone_counts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    running = Running(bearer_token_file=str(tmp_path / "token"))
    running.exposition.publish(snapshot())
    try:
        path = "/api/v1/snapshot"
        assert running.ask(path)[0] == 403
        assert running.ask(path, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert running.ask(path, Authorization=f"bearer  {TOKEN}", Host="node-7")[0] == 200
        assert running.ask(path, Authorization=f"Basic {TOKEN}")[0] == 403
        assert running.ask(path, Authorization=f"Bearer {TOKEN}x")[0] == 403
        assert running.ask(path, Authorization="Bearer \xff")[0] == 403
        assert running.ask("/metrics")[0] == 200
    finally:
        running.server.close()


@pytest.mark.parametrize("content", [b"", b"short", b"two lines of\ntoken text", b"x" * 5000])
def test_token_files_that_hold_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(SettingError, match="token"):
        Server(ListenSettings(port=0, bearer_token_file=str(tmp_path / "token")), {})
    with pytest.raises(SettingError, match="cannot be read"):
        Server(ListenSettings(port=0, bearer_token_file=str(tmp_path / "none")), {})


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("::ffff:10.0.0.7", False),
        ("fe80::1%eth0", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_loopback(peer: str, expected: bool) -> None:
    assert is_loopback(peer) is expected
    assert Access(None).allows(peer, "localhost:9836", "Bearer x") is expected
