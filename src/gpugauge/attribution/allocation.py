"""What the kubelet gave to containers, as it says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Allocation:
    """A device given to a container of a pod."""

    namespace: str
    pod: str
    container: str
    resource: str
    """Resource name, or the driver of a DRA device."""
    device_id: str
    """As the plugin names it; of a DRA device `pool/name`."""
    claim: str = ""
    """Of a DRA device: namespace/name of the claim."""


@dataclass(frozen=True, slots=True)
class Allocations:
    """One answer of the kubelet."""

    version: int = 0
    """Rises when an answer differs from the one before."""
    ready: bool = False
    devices: tuple[Allocation, ...] = ()
    shares: Mapping[str, int] = field(default_factory=dict)
    """How many replicas a device has on this node, by its id without the replica."""


def count_shares(bases: list[str]) -> dict[str, int]:
    """Return how often each base id occurs."""
    return dict(Counter(bases))
