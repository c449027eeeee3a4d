"""The CPU side of those who use GPUs: read more seldom than the counters."""

from __future__ import annotations

import time
from collections.abc import Iterable

from gpugauge.attribution.attribution import Attribution
from gpugauge.model.snapshot import HostContext
from gpugauge.state.tracked import Tracked

READ_SECONDS = 5.0
"""CPU quota and pressure are read this often."""


class HostSides:
    """Keeps the last reading; the same object until the next."""

    def __init__(self, attribution: Attribution) -> None:
        self._attribution = attribution
        self._read_at = float("-inf")
        self._contexts: tuple[HostContext, ...] = ()

    def read(self, processes: Iterable[Tracked]) -> tuple[HostContext, ...]:
        """Return the context of each container that uses a GPU."""
        now = time.monotonic()
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            owners = {p.owner for p in processes if p.owner.pod or p.owner.container_id}
            self._contexts = self._attribution.host_contexts(sorted(owners, key=str))
        return self._contexts
