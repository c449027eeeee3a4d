"""The HTTP server: small, bounded, and one request a connection.

A page is a function from a request to an answer. /metrics and the health pages
are open to all who can reach the port; every other page asks `Access`.
"""

from __future__ import annotations

import errno
import io
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from gpugauge.errors import UnavailableError
from gpugauge.export.access import Access, read_token
from gpugauge.export.connections import RequestReader, Slots
from gpugauge.settings import ListenSettings

LOG = logging.getLogger(__name__)
TEXT = "text/plain; charset=utf-8"
POLL_SECONDS = 0.5
"""Between two looks at whether the server is closed; requests wait for none of it."""
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    """What a page may know of a request."""

    path: str
    query: str
    accepts_gzip: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers."""

    body: bytes
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One path of the server, or with `prefix` all paths below it."""

    answer: Callable[[Request], Answer]
    open: bool = False
    """True: answers every peer; False: only those that `Access` allows."""
    prefix: bool = False


class Server:
    """Serves pages from a thread of its own until it is closed."""

    def __init__(self, settings: ListenSettings, pages: Mapping[str, Page]) -> None:
        """Listen.

        Raises:
            SettingError: the bearer token file is off.
            UnavailableError: the address or the port cannot be had.
        """
        access = Access(read_token(settings.bearer_token_file))
        try:
            self._server = _BoundedServer(settings, access, dict(pages))
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True
        )
        self._thread.name = "http"

    @property
    def port(self) -> int:
        """The port listened on: the one that Linux chose where the setting is 0."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests in progress are left to their time-outs."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _BoundedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, settings: ListenSettings, access: Access, pages: dict[str, Page]) -> None:
        if ":" in settings.address:
            self.address_family = socket.AF_INET6
        self.timeout_seconds = settings.timeout_seconds
        self.access = access
        self.pages = pages
        self._slots = Slots(int(settings.connections))
        super().__init__((settings.address, int(settings.port)), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the resolver for the host's name, which may take seconds.
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = str(client_address[0])
        if not self._slots.take(peer):
            request.settimeout(0)  # never wait for a peer here: this thread accepts for all
            try:
                request.send(BUSY)
            except OSError:
                LOG.debug("a refused peer was gone already")
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            self._slots.give_back(peer)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.give_back(str(client_address[0]))

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        LOG.debug("connection of %s ended early", client_address[0], exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _BoundedServer
    protocol_version = "HTTP/1.1"
    server_version = "gpugauge"
    sys_version = ""
    error_content_type = TEXT
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        reader = RequestReader(self.connection, self.server.timeout_seconds)
        self.rfile = io.BufferedReader(reader, 4096)  # type: ignore[type-var]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def __getattr__(self, name: str) -> Any:
        # http.server answers 501 to a method it finds no do_X for; 405 tells the caller more.
        if name.startswith("do_"):
            return self._method_not_allowed
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("%s " + format, self.client_address[0], *args)

    def _answer(self, *, with_body: bool) -> None:
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self._send(Answer(b"400 not a path\n", status=HTTPStatus.BAD_REQUEST), with_body)
            return
        path = unquote(parts.path)
        page = self._page(path)
        if page is None:
            self._send(Answer(b"404 no such page\n", status=HTTPStatus.NOT_FOUND), with_body)
            return
        if not page.open and not self.server.access.allows(
            str(self.client_address[0]),
            self.headers.get("Host", ""),
            self.headers.get("Authorization", ""),
        ):
            self._send(_FORBIDDEN, with_body)
            return
        accepts_gzip = _accepts_gzip(self.headers.get("Accept-Encoding", ""))
        try:
            answer = page.answer(Request(path, parts.query, accepts_gzip))
        except Exception:  # a page that fails must not end the agent
            LOG.exception("the page %s failed", path[:128])
            answer = Answer(b"500 this page failed\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        self._send(answer, with_body)

    def _page(self, path: str) -> Page | None:
        page = self.server.pages.get(path)
        if page is not None:
            return page
        below = [
            name for name, p in self.server.pages.items() if p.prefix and path.startswith(name)
        ]
        return self.server.pages[max(below, key=len)] if below else None

    def _method_not_allowed(self) -> None:
        more = (("Allow", "GET, HEAD"),)
        self._send(
            Answer(b"405 only GET and HEAD\n", status=HTTPStatus.METHOD_NOT_ALLOWED, headers=more),
            with_body=True,
        )

    def _send(self, answer: Answer, with_body: bool) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        for name, value in answer.headers:
            self.send_header(name, value)
        # From here on the time-out is for the answer, as a whole: sendall counts it in total.
        self.connection.settimeout(self.server.timeout_seconds)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)


_FORBIDDEN = Answer(
    b"403 this page answers loopback peers only, or those with the bearer token\n",
    status=HTTPStatus.FORBIDDEN,
)


def _accepts_gzip(header: str) -> bool:
    for part in header.lower().split(","):
        coding, _, weight = part.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return weight.rstrip("0.") != "" if weight else True
    return False


def _cannot_listen(settings: ListenSettings, error: OSError) -> UnavailableError:
    where = f"{settings.address} port {settings.port}"
    if error.errno == errno.EADDRINUSE:
        return UnavailableError(
            f"{where} is in use by another program.",
            "Choose another with --listen-port, or stop that program (ss -ltnp shows it).",
        )
    reason = error.strerror or str(error)
    return UnavailableError(
        f"{where} cannot be listened on: {reason}.",
        "Give an address of this host with --listen-address, and a port from 1024 up without root.",
    )
