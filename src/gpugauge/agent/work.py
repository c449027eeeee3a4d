"""Work that must not hold up the tick: a pool of threads that survives its faults."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LOG = logging.getLogger(__name__)


class Work:
    """Steps that run in a pool."""

    def __init__(self, threads: int, name: str) -> None:
        """Make a pool; its threads start when they are needed."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether some step has not ended."""
        with self._lock:
            return self._under_way > 0

    def later(self, step: Callable[[], None]) -> None:
        """Run a step soon; never waits. After `close`, nothing runs any more."""
        with self._lock:
            if self._closed:
                return
            self._under_way += 1
            self._pool.submit(self._one, step)

    def close(self) -> None:
        """Wait for steps that run; those that did not begin never do."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, step: Callable[[], None]) -> None:
        try:
            guarded(step)
        finally:
            with self._lock:
                self._under_way -= 1


def guarded(step: Callable[[], None]) -> None:
    """Run a step; a fault of it is logged, and ends nothing else."""
    try:
        step()
    except Exception:
        LOG.exception("discovery met a fault; it goes on")
