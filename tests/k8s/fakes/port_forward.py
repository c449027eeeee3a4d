"""Port-forwards as an API server and a kubelet serve them to `kubectl port-forward`.

A WebSocket of binary messages carries SPDY (`SPDY/3.1+portforward.k8s.io`); for each connection
the client opens a stream for errors and one for data. Here data goes to a port of this host.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.k8s.fakes.spdy import SYN_STREAM, Session

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


@dataclass
class Forwards:
    """Where ports of pods lead, and what was forwarded."""

    ports: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Port of this host by (namespace, pod, port); 0: nobody listens in the pod."""
    forbidden: set[str] = field(default_factory=set)
    """Namespaces in which `create` on pods/portforward is refused."""
    opened: list[tuple[str, str, int]] = field(default_factory=list)
    """Each connection that was made."""
    open_now: int = 0
    """Tunnels that are open."""
    most_open: int = 0
    """The most that were open at a time."""
    silent: set[str] = field(default_factory=set)
    """Pods whose tunnel is never accepted: a kubelet that does not answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)


def upgrade(headers: Any) -> bytes | None:
    """Return the head of the answer that accepts a tunnel; None where none was asked for."""
    if PROTOCOL not in (headers.get("Sec-WebSocket-Protocol") or ""):
        return None
    key = hashlib.sha1(f"{headers['Sec-WebSocket-Key']}{_MAGIC}".encode()).digest()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {base64.b64encode(key).decode()}\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ).encode()


class WebSocket:
    """The server's end of a WebSocket, as a stream of bytes."""

    def __init__(self, rfile: Any, connection: socket.socket) -> None:
        self._rfile = rfile
        self._connection = connection
        self._rest = bytearray()
        self._lock = threading.Lock()

    def receive(self, count: int) -> bytes:
        """Return exactly so many bytes, or fewer at the end."""
        while len(self._rest) < count:
            message = self._message()
            if message is None:
                break
            self._rest += message
        taken = bytes(self._rest[:count])
        del self._rest[:count]
        return taken

    def send(self, data: bytes, kind: int = BINARY) -> None:
        """Send one message."""
        length = len(data)
        if length < 126:
            head = struct.pack(">BB", 0x80 | kind, length)
        elif length < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, 126, length)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, 127, length)
        with self._lock:
            self._connection.sendall(head + data)

    def _message(self) -> bytes | None:
        while True:
            head = self._rfile.read(2)
            if len(head) < 2:
                return None
            kind, length = head[0] & 0x0F, head[1] & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", self._rfile.read(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self._rfile.read(8))
            mask = self._rfile.read(4) if head[1] & 0x80 else b"\0\0\0\0"
            body = self._rfile.read(length)
            wide = (mask * (length // 4 + 1))[:length]
            plain = (int.from_bytes(body) ^ int.from_bytes(wide)).to_bytes(length)
            if kind == CLOSE:
                with contextlib.suppress(OSError):
                    self.send(plain, CLOSE)
                return None
            if kind == PING:
                self.send(plain, PONG)
            elif kind in (0, TEXT, BINARY):
                return plain


def serve(forwards: Forwards, namespace: str, pod: str, socket_: WebSocket) -> None:
    """Serve one tunnel until the client goes away."""
    session = Session(socket_.receive, socket_.send)
    errors: dict[str, int] = {}
    ends: dict[int, socket.socket] = {}
    with forwards.lock:
        forwards.open_now += 1
        forwards.most_open = max(forwards.most_open, forwards.open_now)
    try:
        for frame in session.frames():
            if frame.kind == SYN_STREAM:
                session.accept(frame.stream)
                request = frame.headers["requestid"]
                if frame.headers["streamtype"] == "error":
                    errors[request] = frame.stream
                    continue
                port = int(frame.headers["port"])
                end = _connect(forwards, (namespace, pod, port))
                if end is None:
                    told = f"failed to execute portforward: port {port}: connection refused"
                    session.data(errors[request], told.encode(), fin=True)
                    session.data(frame.stream, b"", fin=True)
                    continue
                ends[frame.stream] = end
                threading.Thread(
                    target=_copy, args=(session, frame.stream, errors[request], end), daemon=True
                ).start()
            elif frame.stream in ends:
                with contextlib.suppress(OSError):
                    if frame.data:
                        ends[frame.stream].sendall(frame.data)
                    if frame.fin:
                        ends[frame.stream].shutdown(socket.SHUT_WR)
    except OSError:
        return
    finally:
        for end in ends.values():
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with forwards.lock:
            forwards.open_now -= 1


def _connect(forwards: Forwards, key: tuple[str, str, int]) -> socket.socket | None:
    forwards.opened.append(key)
    try:
        return socket.create_connection(("127.0.0.1", forwards.ports[key]), timeout=30)
    except (OSError, KeyError):
        return None


def _copy(session: Session, stream: int, errors: int, end: socket.socket) -> None:
    try:
        while data := end.recv(32 << 10):
            session.data(stream, data)
    except OSError:
        with contextlib.suppress(OSError):
            session.reset(stream)
    else:
        with contextlib.suppress(OSError):
            session.data(stream, b"", fin=True)
    with contextlib.suppress(OSError):
        session.data(errors, b"", fin=True)
    end.close()
