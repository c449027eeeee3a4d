"""Says what the tick hangs in: /healthz only says that it does."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback

LOG = logging.getLogger(__name__)

STALLED_SECONDS = 10.0
CHECK_SECONDS = 1.0


class Watchdog:
    """Watches the thread that made it, until closed."""

    def __init__(
        self, stalled_seconds: float = STALLED_SECONDS, check_seconds: float = CHECK_SECONDS
    ) -> None:
        """Begin to watch.

        Args:
            stalled_seconds: So long without `fed` is a stall.
            check_seconds: Time between two looks.
        """
        self._watched = threading.get_ident()
        self._stalled_seconds = stalled_seconds
        self._check_seconds = check_seconds
        self._fed_at = time.monotonic()
        self._told = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def fed(self) -> None:
        """Say that the tick goes on."""
        self._fed_at = time.monotonic()
        self._told = False

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._stop.wait(self._check_seconds):
            late = time.monotonic() - self._fed_at
            if late > self._stalled_seconds and not self._told:
                self._told = True
                LOG.error("the tick has stood still for %.0f s, in:\n%s", late, self._stack())

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return "".join(traceback.format_stack(frame)) if frame else "(its thread is gone)"
