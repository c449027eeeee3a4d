"""A limit of time for reads that a tenant's file system could hold up for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from gpugauge.errors import UnavailableError

T = TypeVar("T")
STUCK_LIMIT = 4
"""So many reads may hang at once; then nothing more is tried."""
_slots = threading.BoundedSemaphore(STUCK_LIMIT)


def within(seconds: float, read: Callable[[], T]) -> T:
    """Return what `read` returns.

    A read that hangs keeps its thread, which Linux ends with the process.

    Raises:
        UnavailableError: it took longer, or too many hang already.
    """
    if not _slots.acquire(blocking=False):
        raise UnavailableError("earlier reads of containers' files hang")
    answer: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(read())
        except BaseException as error:
            failure.append(error)
        finally:
            _slots.release()

    thread = threading.Thread(target=run, name="explain-read", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not answer:
        raise UnavailableError(f"its files did not answer in {seconds:g} s")
    return answer[0]
