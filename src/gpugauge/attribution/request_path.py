"""What the API server holds of a pod's way to its GPU: the few fields that explain it.

Of environments only the names in ENVIRONMENT are kept, here and everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENVIRONMENT = (
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)
"""The only variables whose values are read or shown. None of them holds a secret."""
VALUE_LIMIT = 256
"""Characters kept of a value, an event's message or a reason."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node; as a toleration, `operator` says how `value` is compared."""

    key: str
    value: str = ""
    effect: str = ""
    operator: str = "Equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """A container as its pod describes it, and as its status shows it."""

    name: str
    kind: str = "app"
    """`app` or `init`."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Limits of extended resources, as written."""
    requests: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[str, ...] = ()
    """Names of the pod's claims that it uses."""
    privileged: bool = False
    shm_mounted: bool = False
    """Something is mounted at /dev/shm."""
    host_devices: bool = False
    """A host path at or below /dev is mounted."""
    environment: Mapping[str, str] = field(default_factory=dict)
    container_id: str = ""
    state: str = ""
    """`running`, `waiting`, `terminated`, or "" before there is one."""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    last_message: str = ""
    """Why it ended the last time."""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod names, and the ResourceClaim made for it."""

    name: str
    claim: str = ""
    """Name of the ResourceClaim; "" while there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A pod, as far as its GPU goes."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    scheduled_message: str = ""
    """What the scheduler wrote into the PodScheduled condition while it is false."""
    runtime_class: str = ""
    tolerations: tuple[Taint, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[ContainerRequest, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    created_unix_ns: int = 0
    started_unix_ns: int = 0
    deleted: bool = False
    daemon_set: str = ""
    """Name of the DaemonSet that made it."""
    images: tuple[str, ...] = ()
    ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event, newest count."""

    kind: str
    name: str
    reason: str
    message: str
    uid: str = ""
    """Of what it is about: a pod made anew under the same name has another."""
    warning: bool = False
    last_unix_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node, as far as GPUs go."""

    name: str
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Extended resources only."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    ready: bool | None = None
    ready_unix_ns: int = 0
    kubelet_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """A ResourceClaim."""

    name: str
    uid: str = ""
    device_classes: tuple[str, ...] = ()
    allocated: tuple[str, ...] = ()
    """`driver/pool/device` of each device; empty: not allocated."""


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """The devices that one driver offers in one pool."""

    driver: str
    node: str
    devices: int
    uuids: Mapping[str, str] = field(default_factory=dict)
    """UUID by `pool/device`, as far as the driver tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetFacts:
    """A DaemonSet of NVIDIA's, and what it tolerates."""

    namespace: str
    name: str
    desired: int = 0
    ready: int = 0
    tolerations: tuple[Taint, ...] = ()
