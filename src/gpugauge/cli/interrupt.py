"""Signals that end a command while it has children: they end first, and by their ids."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind as ^C does, so that what was opened is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)  # as a shell says it

    held = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
