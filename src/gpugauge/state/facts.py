"""What the agent knows at a tick beside the maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpugauge.model.device import Inventory
from gpugauge.model.snapshot import Entitlement, HostContext
from gpugauge.model.workload import Owner


@dataclass(frozen=True, slots=True)
class Origin:
    """How a process came to be traced."""

    complete: bool = True
    """Probes were there before it mapped the library."""
    tenant_supplied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """The agent on itself; see model.snapshot.AgentHealth."""

    attach_mode: str
    probes: Mapping[str, int]
    libraries: int
    unprobed_processes: Mapping[str, int]
    probe_cost_ns: float | None
    tick_ns: int
    tick_late: int
    bpf_memory_bytes: int
    history_bytes: int
    cpu_ns: int
    rss_bytes: int
    pods_error: str
    unresolved: Mapping[str, int]
    ready: bool
    simulated: bool = False
    """A simulated driver was attached in this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a tick takes in beside the maps."""

    time_unix_ns: int
    node: str
    linux_version: str
    inventory: Inventory
    owner_of: Callable[[int, int], Owner]
    """(pid, cgroup id) -> owner; answers at once."""
    origin_of: Callable[[int], Origin]
    """pid -> how it came to be traced; asked once, at its first tick."""
    gone: frozenset[int]
    """Process numbers of which /proc says that they are gone."""
    hosts: tuple[HostContext, ...]
    entitlements: tuple[Entitlement, ...]
    agent: AgentFacts
