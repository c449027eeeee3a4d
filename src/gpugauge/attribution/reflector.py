"""List, then watch, then list again when the watch cannot go on.

One thread per resource. Nothing that a server does ends it: what is known stays,
the reason is kept as one sentence, and the next try comes later and at a random
moment, since the agents of all nodes lose the server together.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from gpugauge.attribution.api_server import ApiServer, Refused, TooLarge, sentence_of
from gpugauge.attribution.watch_json import ErrorStatus, ListPage, Versioned, WatchEvent, decode
from gpugauge.attribution.watch_limits import WatchLimits
from gpugauge.errors import ForeignDataError, GpugaugeError

_GONE = 410
_NOT_FOUND = 404
_FORBIDDEN = frozenset({401, 403})
_T = TypeVar("_T")


class Sink(Protocol[_T]):
    """What a reflector fills, from its own thread."""

    def decode(self, data: msgspec.Raw) -> _T:
        """Return what is kept of an object, or raise ForeignDataError."""

    def replace(self, items: list[_T]) -> None:
        """Take a whole list."""

    def put(self, item: _T) -> None:
        """Take an object that was added or changed."""

    def remove(self, item: _T) -> None:
        """Take that an object is gone."""


class _RelistError(Exception):
    """The watch cannot go on from where it was."""


class Reflector(Generic[_T]):
    """Keeps a sink equal to what the API server lists at a path."""

    def __init__(
        self,
        path: str,
        sink: Sink[_T],
        connect: Callable[[], ApiServer],
        *,
        params: dict[str, str] | None = None,
        limits: WatchLimits | None = None,
        older_paths: tuple[str, ...] = (),
    ) -> None:
        """Watch `path` (`/api/v1/pods`) with `params` added to each request.

        Where the server does not know it, `older_paths` are tried in turn.
        """
        self._paths = (path, *older_paths)
        self._path = path
        self._sink = sink
        self._connect = connect
        self._params = params or {}
        self._limits = limits or WatchLimits()
        self._random = random.Random()  # noqa: S311 - spreads load, guards nothing
        self._stopping = False
        self._relist_wanted = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._server: ApiServer | None = None
        self._failures = 0
        self._bookmarks = True
        self._version = ""
        self.error = ""
        """Why the last try failed, or "" while all goes well."""
        self.lists = 0
        self.events = 0
        self.heard_seconds: float | None = None
        """When the server last said something, on the monotonic clock; bookmarks count."""
        self.malformed = 0
        """Objects that could not be read; the others of the same answer were."""

    def start(self) -> None:
        """Start the thread."""
        name = f"watch-{self._path.rpartition('/')[2]}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End the thread and its connection."""
        self._stopping = True
        self._interrupt()
        if self._thread is not None:
            self._thread.join(seconds)

    def refresh(self) -> None:
        """List again now: something is known to be missing."""
        self._relist_wanted = True
        self._interrupt()

    def _interrupt(self) -> None:
        self._wake.set()
        server = self._server
        if server is not None:
            server.interrupt()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._session()
            except _RelistError as lost:
                self._version = ""
                self.error = str(lost)
                self._pause(self._random.uniform(0, self._limits.jitter_seconds))
            except Exception as error:  # whatever a server, or what is before it, can cause
                if isinstance(error, GpugaugeError):
                    self._version = ""  # an answer, not a lost connection: begin anew
                if not (self._stopping or self._relist_wanted):
                    self.error = sentence_of(error)
                    self._pause(self._backoff(error))

    def _session(self) -> None:
        """One connection: list unless the watch can go on, then watch until something fails."""
        if self._relist_wanted:
            self._version = ""
        self._relist_wanted = False
        self._wake.clear()
        server = self._server = self._connect()
        try:
            if not self._version:
                self._version = self._list(server)
                self.error = ""
            while not (self._stopping or self._relist_wanted):
                self._watch(server)
        finally:
            self._server = None
            server.close()

    def _list(self, server: ApiServer) -> str:
        # The first list may come from the server's cache, which is cheap; a later one must
        # not be older than what was seen.
        cached, page_items = self.lists == 0, self._limits.page_items
        while True:
            try:
                items, version = self._list_pages(server, page_items, cached=cached)
                break
            except TooLarge:
                # The cache ignores the page size: smaller pages, and not from the cache.
                if page_items == 1:
                    raise
                cached, page_items = False, max(1, page_items // 8)
        self._sink.replace(items)
        self.lists += 1
        self.heard_seconds = time.monotonic()
        return version

    def _list_pages(
        self, server: ApiServer, page_items: int, *, cached: bool
    ) -> tuple[list[_T], str]:
        kept: list[_T] = []
        first = {**self._params, "limit": str(page_items)}
        params = {**first, "resourceVersion": "0"} if cached else first
        while True:
            body = server.get(
                self._path,
                params,
                limit_bytes=self._limits.page_bytes,
                seconds=self._limits.list_seconds,
            )
            page = decode(body, ListPage, "list")
            for raw in page.items or ():
                self._keep(raw, kept.append)
            if len(kept) > self._limits.items:
                raise ForeignDataError(f"The list of {self._path} is longer than is read.")
            if not page.metadata.continue_:
                return kept, page.metadata.resourceVersion
            params = {**first, "continue": page.metadata.continue_}

    def _watch(self, server: ApiServer) -> None:
        """Watch from `_version`, until the server ends it in order."""
        limits = self._limits
        seconds = max(1, round(limits.watch_seconds * self._random.uniform(0.8, 1.0)))
        params = {**self._params, "watch": "true", "timeoutSeconds": str(seconds)}
        if self._version:
            params["resourceVersion"] = self._version
        if self._bookmarks:
            params["allowWatchBookmarks"] = "true"
        seen = False
        for line in server.lines(
            self._path,
            params,
            limit_bytes=limits.line_bytes,
            silence_seconds=limits.silence_seconds,
        ):
            self.heard_seconds = time.monotonic()
            if not line:
                self.error = ""
                continue
            event = decode(line, WatchEvent, "event")
            if event.type == "ERROR":
                # Some servers end every watch with bookmarks so: try without the next time.
                self._bookmarks = seen or not self._bookmarks
                raise _RelistError(_lost(decode(event.object, ErrorStatus, "error event")))
            seen = True
            self._event(event)
            version = decode(event.object, Versioned, "event").metadata.resourceVersion
            self._version = version or self._version
            self._failures = 0
        if not seen:
            # A server that ends watches at once must not be asked in a tight loop.
            self._pause(min(1.0, limits.backoff_first_seconds))
        self._failures = 0

    def _event(self, event: WatchEvent) -> None:
        if event.type in {"ADDED", "MODIFIED"}:
            self._keep(event.object, self._sink.put)
        elif event.type == "DELETED":
            self._keep(event.object, self._sink.remove)
        self.events += 1

    def _keep(self, raw: msgspec.Raw, take: Callable[[_T], None]) -> None:
        try:
            item = self._sink.decode(raw)
        except ForeignDataError:
            self.malformed += 1
            return
        take(item)

    def _backoff(self, error: Exception) -> float:
        if isinstance(error, Refused) and error.status == _GONE:
            return self._random.uniform(0, self._limits.jitter_seconds)
        if isinstance(error, Refused) and error.status in _FORBIDDEN:
            return self._limits.forbidden_seconds * self._random.uniform(0.8, 1.0)
        if isinstance(error, Refused) and error.status == _NOT_FOUND:
            self._path = self._paths[(self._paths.index(self._path) + 1) % len(self._paths)]
        longest = self._limits.backoff_first_seconds * 2.0 ** min(self._failures, 20)
        self._failures += 1
        return min(longest, self._limits.backoff_last_seconds) * self._random.uniform(0.5, 1.0)

    def _pause(self, seconds: float) -> None:
        if not self._stopping:
            self._wake.wait(seconds)


def _lost(status: ErrorStatus) -> str:
    if status.code == _GONE:
        return "The history of the watch was lost (410): listing again."
    return f"The API server ended the watch with error {status.code}: listing again."
