"""SPDY/3.1 as far as `kubectl port-forward` speaks it: streams, half-closes, pings.

Written from the draft (mbelshe-httpbis-spdy-3); the header dictionary is section 2.6.10.1's, and
zlib refuses it if a byte of it is wrong.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1
_NAMES = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,"
    "accept-ranges,age,allow,authorization,cache-control,connection,content-base,"
    "content-encoding,content-language,content-length,content-location,content-md5,"
    "content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    "if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,"
    "max-forwards,pragma,proxy-authenticate,proxy-authorization,range,referer,retry-after,"
    "server,te,trailer,transfer-encoding,upgrade,user-agent,vary,via,warning,"
    "www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,"
    "keep-alive,origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, "
    "Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(n)) + n.encode() for n in _NAMES.split(",")) + _TAIL.encode()
)


class Frame(NamedTuple):
    """What one frame says."""

    kind: int
    """0: data; else the type of a control frame."""
    stream: int
    fin: bool
    data: bytes
    headers: dict[str, str]


class Session:
    """The server's end: reads frames from `receive`, writes them to `send`."""

    def __init__(self, receive: Callable[[int], bytes], send: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._send = send
        self._lock = threading.Lock()
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    def frames(self) -> Iterator[Frame]:
        """Yield frames until the other end is gone; answers pings."""
        while len(head := self._receive(8)) == 8:
            first, rest = struct.unpack(">II", head)
            flags, length = rest >> 24, rest & 0xFFFFFF
            body = self._receive(length)
            if not first >> 31:
                yield Frame(0, first, bool(flags & FIN), body, {})
                continue
            kind = first & 0xFFFF
            if kind == PING:
                self._write(head + body)
            elif kind == SYN_STREAM:
                (stream,) = struct.unpack_from(">I", body)
                yield Frame(kind, stream, bool(flags & FIN), b"", self._headers(body[10:]))
            elif kind == RST_STREAM:
                yield Frame(kind, struct.unpack_from(">I", body)[0], True, b"", {})
            elif kind == GOAWAY:
                return

    def accept(self, stream: int) -> None:
        """Answer a new stream."""
        packed = self._pack.compress(struct.pack(">I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        self._control(SYN_REPLY, struct.pack(">I", stream) + packed)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        """Send data; with `fin`, the last of this stream."""
        head = struct.pack(">II", stream, (FIN if fin else 0) << 24 | len(data))
        self._write(head + data)

    def reset(self, stream: int) -> None:
        """End a stream at once."""
        self._control(RST_STREAM, struct.pack(">II", stream, 5))

    def _control(self, kind: int, body: bytes) -> None:
        self._write(struct.pack(">HHI", 0x8003, kind, len(body)) + body)

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._send(data)

    def _headers(self, packed: bytes) -> dict[str, str]:
        block = self._unpack.decompress(packed)
        (count,) = struct.unpack_from(">I", block)
        at, texts = 4, []
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", block, at)
            texts.append(block[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))
