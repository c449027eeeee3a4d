"""A rate: so many a minute, and as many at once after a quiet minute."""

from __future__ import annotations

import time
from collections.abc import Callable

MINUTE_SECONDS = 60.0


class TokenBucket:
    """Tells how long to wait before the next one."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin full."""
        self._full = float(per_minute)
        self._per_second = per_minute / MINUTE_SECONDS
        self._clock = clock
        self._tokens = self._full
        self._at = clock()

    def wait_seconds(self) -> float:
        """Return how long until one may be taken; 0.0 when now."""
        now = self._clock()
        self._tokens = min(self._full, self._tokens + max(0.0, now - self._at) * self._per_second)
        self._at = now
        return max(0.0, (1.0 - self._tokens) / self._per_second)

    def take(self) -> None:
        """Take one."""
        self._tokens -= 1.0
