"""All that the checks know: plain facts, gathered first. None: not seen; `missing` says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpugauge.attribution.allocation import Allocation
from gpugauge.attribution.request_path import (
    ClaimFacts,
    DaemonSetFacts,
    Event,
    NodeFacts,
    PodRequest,
    SliceFacts,
)
from gpugauge.model.device import Inventory
from gpugauge.model.process import Process

WSL_FILE = "dxg"
"""All GPUs under WSL, where there is no file of NVIDIA's."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file, by its path below /dev."""

    name: str
    major: int
    minor: int


@dataclass(frozen=True, slots=True)
class DriverLibrary:
    """A driver library that a process maps, or that lies in a container."""

    path: str
    version: str
    origin: str
    """`host`, `compat` (forward compatibility) or `own` (a copy of the image)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeen:
    """What the node shows of one running container, from outside."""

    name: str
    pids: tuple[int, ...] = ()
    devices: tuple[DeviceNode, ...] | None = None
    """NVIDIA's files below its /dev; None: could not be read."""
    environment: Mapping[str, str] | None = None
    """Only names of the documented list."""
    mapped: tuple[DriverLibrary, ...] | None = None
    libraries: tuple[str, ...] | None = None
    """Driver libraries in its usual library folders, mapped or not."""
    shm_total_bytes: int | None = None
    shm_used_bytes: int | None = None
    device_rules: tuple[str, ...] | None = None
    """Of cgroup v1, such as `c 195:* rw`; None on v2, where no file shows them."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """An NVIDIA GPU on the bus."""

    address: str
    driver: str
    """`nvidia`, `vfio-pci`, `nouveau`, or "" for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """The Linux side of the driver."""

    loaded_version: str = ""
    """From /proc/driver/nvidia/version; "" where the driver is not loaded."""
    modules: tuple[str, ...] | None = None
    """GPU modules of /proc/modules: nvidia*, nouveau, vfio*."""
    majors: Mapping[str, int] | None = None
    """NVIDIA's character devices of /proc/devices, by name."""
    devices: tuple[DeviceNode, ...] | None = None
    """NVIDIA's files below the host's /dev."""
    char_links: bool | None = None
    """/dev/char has links to NVIDIA's files."""
    pci: tuple[PciDevice, ...] | None = None
    minors: Mapping[str, str] = field(default_factory=dict)
    """UUID of a GPU by the N of its /dev/nvidiaN."""
    library_versions: tuple[str, ...] | None = None
    """Versions of the host's libcuda files."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the Linux log that concerns GPUs."""

    unix_ns: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolkitFacts:
    """The container toolkit and what it left on the node."""

    runtime_configs: tuple[str, ...] = ()
    """Configuration files of containerd or CRI-O that were found."""
    nvidia_handler: bool | None = None
    """A runtime named nvidia stands in one of them; None: no file was found."""
    nvidia_default: bool = False
    toolkit_mode: str = ""
    """`mode` of the toolkit's own configuration, or ""."""
    unprivileged_env: bool | None = None
    """accept-nvidia-visible-devices-envvar-when-unprivileged; None: no configuration found."""
    cdi_files: tuple[str, ...] = ()
    cdi_kinds: tuple[str, ...] = ()
    """Kinds of those files: `nvidia.com/gpu`, `k8s.gpu.nvidia.com/claim`."""
    cdi_devices: int = 0
    validations: tuple[str, ...] | None = None
    """Files of the GPU Operator's validations; None: no such folder."""
    mps_folder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """What the kubelet's folder shows beside its socket."""

    socket: bool = False
    plugin_sockets: tuple[str, ...] | None = None
    """Sockets of NVIDIA's plugin in device-plugins."""
    registered: Mapping[str, int] | None = None
    """Devices by resource in the kubelet's checkpoint; None: it could not be read."""
    holders: Mapping[str, str] = field(default_factory=dict)
    """Resource by the UID of a pod that the checkpoint says holds devices of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcesses:
    """Processes of the node that belong to the driver's own services."""

    fabric_manager: bool = False
    mps_control: bool = False
    mps_server: bool = False
    alive: tuple[int, ...] = ()
    """Those of NVML's processes that /proc knows."""
    zombies: tuple[int, ...] = ()
    cgroup_gone: tuple[int, ...] = ()
    """Those that run outside any cgroup of a pod that is known, below kubepods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One look. `pod_wanted` is "" when the node alone is looked at."""

    pod_wanted: str = ""
    node_name: str = ""
    """The node whose files, sockets and NVML were read; "" for none."""
    now_unix_ns: int = 0
    now_monotonic_ns: int = 0
    simulated: bool = False
    pod: PodRequest | None = None
    events: tuple[Event, ...] | None = None
    node: NodeFacts | None = None
    nodes: tuple[NodeFacts, ...] | None = None
    node_pods: tuple[PodRequest, ...] | None = None
    runtime_handler: str | None = None
    """Handler of the pod's RuntimeClass; "" where that class does not exist."""
    claims: tuple[ClaimFacts, ...] | None = None
    slices: tuple[SliceFacts, ...] | None = None
    daemon_sets: tuple[DaemonSetFacts, ...] | None = None
    kubelet: KubeletFacts | None = None
    allocations: tuple[Allocation, ...] | None = None
    allocatable: tuple[Allocation, ...] | None = None
    """What the kubelet could give; only `resource` and `device_id` are set."""
    toolkit: ToolkitFacts | None = None
    driver: DriverFacts | None = None
    log: tuple[LogLine, ...] | None = None
    inventory: Inventory | None = None
    services: NodeProcesses | None = None
    containers: tuple[ContainerSeen, ...] | None = None
    processes: tuple[Process, ...] | None = None
    """From the agent: the processes on the pod's devices, its own among them."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a source is None, by its field's name."""

    def why(self, source: str) -> str:
        """Return why a source was not seen."""
        return self.missing.get(source, "it was not looked at")
