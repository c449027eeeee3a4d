"""The time split of one process: who waits for whom.

host waits for GPU (blocked wall) + GPU waits for host (known idle)
+ overlapped + unobserved = the time the process was observed.

Blocked and idle never overlap on one device: an interval with nothing
outstanding has nobody to wait for. Over several devices the GPUs wait only
while all are idle; of that, sum(idle) - (n - 1) x time is a safe lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class TimeSplit:
    """Cumulative parts, in ns; each only rises."""

    observed_ns: int = 0
    host_waits_ns: int = 0
    gpu_waits_ns: int = 0
    overlapped_ns: int = 0
    unobserved_ns: int = 0
    _blocked_ns: int = 0
    _idle_ns: dict[int, int] = field(default_factory=dict)

    def update(self, observed_ns: int, blocked_ns: int, idle_ns: Mapping[int, int | None]) -> None:
        """Take in one tick.

        Args:
            observed_ns: How long the process has been observed.
            blocked_ns: Blocked wall time so far.
            idle_ns: Known idle time so far by place used; None where it is unknown.
        """
        passed = max(0, observed_ns - self.observed_ns)
        waited = min(passed, max(0, blocked_ns - self._blocked_ns))
        rest = passed - waited
        self.observed_ns += passed
        self.host_waits_ns += waited
        self._blocked_ns = max(self._blocked_ns, blocked_ns)
        rises = []
        known = bool(idle_ns)
        for place, now_ns in idle_ns.items():
            if now_ns is None:
                known = False
                continue
            rises.append(max(0, now_ns - self._idle_ns.get(place, 0)))
            self._idle_ns[place] = max(now_ns, self._idle_ns.get(place, 0))
        if not known:
            self.unobserved_ns += rest
            return
        idle = min(rest, max(0, sum(rises) - (len(rises) - 1) * passed))
        self.gpu_waits_ns += idle
        self.overlapped_ns += rest - idle
