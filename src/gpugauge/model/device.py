"""A GPU of this node, and what NVML says of the processes on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that NVML lists on a device."""

    pid: int
    memory_held_bytes: int | None
    """None where NVML does not say."""
    kind: str = "compute"
    """`compute`, `graphics` or `mps`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a MIG instance."""

    uuid: str
    index: int
    """NVML's index of the (parent) GPU."""
    model: str
    pci_bus_id: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_reserved_bytes: int | None
    utilization_ratio: float | None
    compute_mode: str
    mig_parent_uuid: str = ""
    mig_profile: str = ""
    processes: tuple[DeviceProcess, ...] | None = ()
    """None where NVML does not say."""
    simulated: bool = False
    gpu_instance: int | None = None
    """Of a MIG instance: its GPU instance id, as device plugins name it; None: not known."""
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """What NVML answered at one tick."""

    devices: tuple[Device, ...]
    driver_version: str
    cuda_version: str
    error: str = ""
    """Why there is no new inventory; devices are then those of the last answer, or none."""
    age_ns: int = 0
    """How old the answer is: NVML runs in a thread of its own with a deadline."""
