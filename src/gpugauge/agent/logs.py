"""Log lines: to standard error, at a bounded rate, the last ones kept for a bug report."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from gpugauge.settings import Settings

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LINES_PER_MINUTE = 10
"""Of one message; what goes beyond is counted, and told with the next one."""
MESSAGES_KEPT = 256
LAST_LINES = 200
TRANSPORTS = ("httpx", "httpx2")
"""Of the API server's client: it logs each request as information, which is none here."""


class RateLimit(logging.Filter):
    """Lets at most LINES_PER_MINUTE lines of one message through.

    A message is what the code says, before its arguments: whatever a tenant's
    files and names are called, they cannot fill a disk through our log.
    """

    def __init__(
        self, per_minute: int = LINES_PER_MINUTE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing said."""
        super().__init__()
        self._per_minute = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[tuple[str, int, str], tuple[int, int, int]] = {}
        """By message: (minute, lines of it, lines held back)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; one after held-back ones says how many."""
        name = (record.name, record.lineno, str(record.msg)[:200])
        minute = int(self._clock() // 60)
        with self._lock:
            before, lines, held = self._said.pop(name, (minute, 0, 0))
            if before != minute:
                lines = 0
            allowed = lines < self._per_minute
            self._said[name] = (minute, lines + 1, 0 if allowed else held + 1)
            while len(self._said) > MESSAGES_KEPT:
                del self._said[next(iter(self._said))]
        if allowed and held:
            record.msg = f"{record.getMessage()} ({held} lines like this were not written)"
            record.args = None
        return allowed


class LastLines(logging.Handler):
    """Keeps the last lines in memory."""

    def __init__(self, lines: int = LAST_LINES) -> None:
        """Begin with none."""
        super().__init__()
        self.lines: deque[str] = deque(maxlen=lines)
        self.setFormatter(logging.Formatter(FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(self.format(record))


def start_logging(settings: Settings) -> LastLines:
    """Log lines to standard error from now on; return the keeper of the last ones."""
    kept = LastLines()
    stream = logging.StreamHandler(sys.stderr)
    limit = RateLimit()
    for handler in (stream, kept):
        handler.setFormatter(logging.Formatter(FORMAT))
    # One filter before both: a line is judged once.
    gate = _Gate(limit, (stream, kept))
    logging.basicConfig(level=settings.log_level.value.upper(), handlers=[gate])
    for name in TRANSPORTS:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))
    return kept


class _Gate(logging.Handler):
    """Hands a line on to several handlers, once a filter let it through."""

    def __init__(self, limit: RateLimit, handlers: tuple[logging.Handler, ...]) -> None:
        super().__init__()
        self.addFilter(limit)
        self._handlers = handlers

    def emit(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            handler.handle(record)
