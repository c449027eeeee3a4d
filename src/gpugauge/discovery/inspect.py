"""Inspection of a foreign file by a child, and its answer checked as foreign too."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import gpugauge
from gpugauge.discovery.names import clean
from gpugauge.discovery.sites import UNKNOWN_LIMIT
from gpugauge.errors import ForeignDataError, UnavailableError
from gpugauge.model.library import FileId, Library, Site, SiteKind
from gpugauge.units import NS_PER_SECOND
from gpugauge.vendors import Vendor

DEADLINE_NS = 2 * NS_PER_SECOND
ANSWER_LIMIT_BYTES = 1024 * 1024
SHOWN_PATH_LIMIT = 256
STUCK_LIMIT = 4
"""Children that did not end when killed: with so many, nothing more is inspected."""

_T = TypeVar("_T")
_BIGGEST = (1 << 63) - 1
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from gpugauge.discovery.child import main; main()"
)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the child says of one file."""

    library: Library
    probed: bool
    """Linux holds a breakpoint of ours in it: it is known under another name."""
    unprivileged: bool
    """False where the agent may not change its user: the child then kept its own."""


class Inspector:
    """Starts one child a file. Not for the tick: a call takes up to the deadline.

    Args:
        vendor: Whose library it is.
        canaries: Preferred canaries, best first.
        deadline_ns: After it the child is killed and the file refused.
    """

    def __init__(
        self, vendor: Vendor, canaries: tuple[str, ...] = (), deadline_ns: int = DEADLINE_NS
    ) -> None:
        self._vendor = vendor
        self._canaries = canaries
        self._deadline_ns = deadline_ns
        self._functions = tuple(function.symbol for function in vendor.functions)
        self._stuck: list[subprocess.Popen[bytes]] = []
        self._waiting: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Have a child wait for the next file: starting one takes most of an inspection's time."""
        with self._lock:
            if self._waiting is not None and self._waiting.poll() is not None:
                self._end(self._waiting)  # somebody killed it
                self._waiting = None
            if self._waiting is None and not self._closed:
                self._waiting = self._start()

    def close(self) -> None:
        """End the child that waits."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._end(waiting)

    @property
    def stuck_children(self) -> int:
        """Children that were killed and have not ended: they wait for a file system."""
        self._stuck = [child for child in self._stuck if child.poll() is None]
        return len(self._stuck)

    def inspect(
        self,
        path: str,
        *,
        shown_path: str = "",
        pid: int = 0,
        device: tuple[int, int] | None = None,
        tenant_supplied: bool = False,
    ) -> Inspection:
        """Read a library and choose its sites.

        Args:
            path: To open it by: a host path, or /proc/PID/map_files/START-END.
            shown_path: How its users see it; gives the version.
            pid: Whose mount namespace it lies in; 0 is the agent's own.
            device: Major and minor as /proc/PID/maps shows them.
            tenant_supplied: Not the host's driver.

        Raises:
            ForeignDataError: The file is refused; the sentence says why.
            UnavailableError: No child could be started, or too many are stuck.
        """
        if self.stuck_children >= STUCK_LIMIT:
            raise UnavailableError(
                f"{STUCK_LIMIT} earlier inspections wait for file systems that do not answer.",
                "Look for mounts that hang on this node.",
            )
        request = {
            "path": path,
            "pid": pid,
            "device": device,
            "functions": self._functions,
            "watched": self._vendor.watched,
            "known": sorted(self._vendor.watched_known),
            "canaries": self._canaries,
        }
        shown = shown_path or path
        answer = _parse(self._ask(json.dumps(request).encode()))
        version = self._vendor.library_version(Path(shown).name)
        try:
            return Inspection(
                library=_library(
                    answer,
                    frozenset(self._functions),
                    vendor=self._vendor.name,
                    version=version,
                    path=path,
                    shown_path=clean(shown, limit=SHOWN_PATH_LIMIT),
                    tenant_supplied=tenant_supplied,
                ),
                probed=_is(answer["probed"], bool),
                unprivileged=_is(answer["unprivileged"], bool),
            )
        except (KeyError, TypeError, ValueError, IndexError):
            raise ForeignDataError("The answer about the file is malformed.") from None

    def _ask(self, request: bytes) -> bytes:
        with self._lock:
            child, self._waiting = self._waiting, None
        if child is not None and child.poll() is not None:
            self._end(child)
            child = None
        child = child or self._start()
        try:
            return _converse(child, request, time.monotonic_ns() + self._deadline_ns)
        finally:
            self._end(child)

    def _start(self) -> subprocess.Popen[bytes]:
        source = str(Path(gpugauge.__file__).parents[1])
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, source],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise UnavailableError(
                f"No process could be started to read a driver library ({error.strerror}).",
                "Check the limits on processes of the agent.",
            ) from error

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.kill()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()
        try:
            child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self._stuck.append(child)  # it sleeps where no signal reaches it


def _converse(child: subprocess.Popen[bytes], request: bytes, deadline_ns: int) -> bytes:
    """Send the request and read the answer, both against the deadline.

    Raises:
        ForeignDataError: The child was late, died, or said too much.
    """
    assert child.stdin is not None  # noqa: S101 (both are pipes)
    assert child.stdout is not None  # noqa: S101
    source, sink = child.stdout.fileno(), child.stdin.fileno()
    os.set_blocking(source, False)
    os.set_blocking(sink, False)
    answer = bytearray()
    while True:
        left_ns = deadline_ns - time.monotonic_ns()
        if left_ns <= 0:
            raise ForeignDataError("the file did not answer within the deadline")
        readable, writable, _ = select.select(
            [source], [sink] if request else [], [], left_ns / NS_PER_SECOND
        )
        if writable:
            try:
                request = request[os.write(sink, request) :]
            except BrokenPipeError:
                request = b""
            if not request:
                child.stdin.close()
        if readable:
            chunk = os.read(source, 65536)
            if not chunk:
                break
            answer += chunk
            if len(answer) > ANSWER_LIMIT_BYTES:
                raise ForeignDataError("the answer about the file is too long")
    if not answer:
        raise ForeignDataError("the process that read the file died of it")
    return bytes(answer)


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        raise ForeignDataError("The answer about the file is malformed.") from None
    if not isinstance(answer, dict):
        raise ForeignDataError("The answer about the file is malformed.")
    if "refused" in answer:
        raise ForeignDataError(clean(str(answer["refused"])))
    return answer


def _library(
    answer: dict[str, Any],
    functions: frozenset[str],
    *,
    vendor: str,
    version: str,
    path: str,
    shown_path: str,
    tenant_supplied: bool,
) -> Library:
    major, minor, inode = (_number(each) for each in answer["file_id"])
    sites = tuple(_site(row) for row in answer["sites"])
    if len(sites) > len(functions) or not functions.issuperset(site.symbol for site in sites):
        raise ValueError
    return Library(
        file_id=FileId(major, minor, inode),
        path=path,
        shown_path=shown_path,
        vendor=vendor,
        version=version,
        sites=sites,
        exported=_number(answer["exported"]),
        unknown_symbols=tuple(clean(_is(name, str)) for name in answer["unknown"][:UNKNOWN_LIMIT]),
        tenant_supplied=tenant_supplied,
        canary=_site(answer["canary"]) if answer["canary"] is not None else None,
        build_id=clean(_is(answer["build_id"], str)),
        simulated=_is(answer["simulated"], bool),
        size_bytes=_number(answer["size_bytes"]),
    )


def _site(row: list[Any]) -> Site:
    symbol, offset, kind, reason = row
    return Site(clean(_is(symbol, str)), _number(offset), SiteKind(kind), clean(_is(reason, str)))


def _number(value: object) -> int:
    number = _is(value, int)
    if isinstance(number, bool) or not 0 <= number <= _BIGGEST:
        raise ValueError
    return number


def _is(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise TypeError
    return value
