"""Two readings of one owner on one GPU, made of prime numbers, and the rates that follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpugauge.model.abi import Family, Slot
from gpugauge.model.finding import Confidence, Finding, Severity
from gpugauge.model.process import Memory, Operation
from gpugauge.model.snapshot import OwnerTime, Series, Snapshot
from gpugauge.model.workload import Owner
from tests.support.snapshots import GPU_A, SECOND, health, series, snapshot

INTERVAL_NS = 1_999_999_973
"""Between the two ticks: a prime, so that no rate is right by chance."""
TICK_NS = 100_000_007


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an owner does between the two readings; the counters before are primes too."""

    owner: Owner
    gpu_uuid: str = GPU_A
    launches: int = 0
    nodes: int = 0
    unknown_graphs: int = 0
    to_gpu_bytes: int = 0
    to_host_bytes: int = 0
    waits_ns: int = 0
    idle_ns: int | None = 0
    held_bytes: int | None = None
    requested_bytes: int | None = None
    processes: int = 1
    times: bool = True
    more: dict[str, Any] = field(default_factory=dict)

    def series(self, after: bool) -> Series:
        """Return the totals before or after."""
        done = int(after)
        memory = None
        if self.requested_bytes is not None:
            memory = {
                Family.DEVICE: Memory(requested_bytes=self.requested_bytes),
                Family.HOST: Memory(requested_bytes=7_919_000_003),
            }
        values: dict[str, Any] = {
            "operations": {
                Slot.LAUNCH: Operation(calls=7919 + done * self.launches),
                Slot.COPY_HTOD: Operation(calls=3, bytes=104_729 + done * self.to_gpu_bytes),
                Slot.COPY_DTOH: Operation(calls=5, bytes=1_299_709 + done * self.to_host_bytes),
            },
            "graph_launch_nodes": 6_700_417 + done * self.nodes,
            "graph_launches_unknown": 31 + done * self.unknown_graphs,
            "known_idle_ns": None if self.idle_ns is None else 17 * SECOND + done * self.idle_ns,
            "memory": memory,
            "memory_held_bytes": self.held_bytes,
            "processes": self.processes,
        }
        return series(self.owner, self.gpu_uuid, **(values | self.more))

    def time(self, after: bool) -> OwnerTime:
        """Return the time split before or after."""
        done = int(after)
        observed = 103 * SECOND + done * INTERVAL_NS * self.processes
        waits = 11 * SECOND + done * self.waits_ns
        return OwnerTime(
            owner=self.owner,
            observed_ns=observed,
            host_waits_ns=waits,
            gpu_waits_ns=0,
            overlapped_ns=observed - waits,
            unobserved_ns=0,
        )


def reading(works: Iterable[Work], node: str, *, after: bool, **given: Any) -> Snapshot:
    """Return a snapshot before or after."""
    works = tuple(works)
    times = {work.owner: work.time(after) for work in works if work.times}
    values: dict[str, Any] = {
        "node": node,
        "number": 13 + 2 * after,
        "time_monotonic_ns": 1_000_000_007 + after * INTERVAL_NS,
        "interval_ns": TICK_NS,
        "series": tuple(work.series(after) for work in works),
        "times": tuple(times.values()),
        "agent": health(started_ns=97),
    }
    return snapshot(**(values | given))


def two(works: Iterable[Work], node: str, **given: Any) -> list[Snapshot]:
    """Return both."""
    works = tuple(works)
    return [reading(works, node, after=after, **given) for after in (False, True)]


def finding(rule: str, of: Owner | None, severity: Severity = Severity.WARNING, **given: Any):
    """Return an open finding."""
    values: dict[str, Any] = {
        "rule": rule,
        "severity": severity,
        "confidence": Confidence.SURE,
        "owner": of,
        "gpu_uuid": GPU_A,
        "node": "node-a",
        "sentence": "It waits.",
        "remedy": "Wait less.",
        "wrong_when": "Never.",
        "since_unix_ns": 1,
        "found_unix_ns": 1,
        "seen_unix_ns": 1 << 62,
        "explained_ratio": 0.5,
    }
    return Finding(**(values | given))
