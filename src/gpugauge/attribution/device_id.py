"""What a device id of the kubelet says: which device, which slice of it, which replica.

The strings are made by device plugins and DRA drivers; the forms known are those
of NVIDIA's plugin, GKE's plugin, WSL and the `gpu.nvidia.com` DRA driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ID_LIMIT = 256

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GPU = re.compile(rf"(?:GPU|MIG)-{_UUID}", re.IGNORECASE)
# Drivers before R470 name a MIG instance by its GPU, GPU instance and compute instance.
_OLD_MIG = re.compile(rf"MIG-(GPU-{_UUID})/([0-9]{{1,3}})/([0-9]{{1,3}})", re.IGNORECASE)
_GKE = re.compile(r"nvidia([0-9]{1,4})(?:/gi([0-9]{1,3}))?(?:/vgpu([0-9]{1,4}))?")
_DRA = re.compile(r"gpu-([0-9]{1,4})(-mig-.+)?")
_REPLICA = re.compile(r"(.+)::([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device id, taken apart. Empty or None: it does not say."""

    text: str
    uuid: str = ""
    """UUID of the GPU or MIG instance itself."""
    parent_uuid: str = ""
    """UUID of the GPU that a MIG instance without a UUID of its own is part of."""
    minor: int | None = None
    """Number of the device file, `/dev/nvidiaN`."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    replica: int | None = None
    """Which of several equal shares of the device: time slices, MPS or vGPU."""
    every: bool = False
    """All devices of the node (WSL)."""
    slice_of_gpu: bool = False
    """A part of the GPU, of which only the GPU is known."""

    @property
    def base(self) -> str:
        """The id without its replica: equal for all that share the device."""
        match = _REPLICA.fullmatch(self.text)
        return (match.group(1) if match else self.text).partition("/vgpu")[0]


def parse_device_id(text: str) -> DeviceId:
    """Return what a device id says; any text is accepted, what is not known stays empty."""
    text = text[:ID_LIMIT]
    shared = _REPLICA.fullmatch(text)
    base, replica = (shared.group(1), int(shared.group(2))) if shared else (text, None)
    if _GPU.fullmatch(base):
        return DeviceId(text, uuid=_canonical(base), replica=replica)
    old = _OLD_MIG.fullmatch(base)
    if old:
        return DeviceId(
            text,
            parent_uuid=_canonical(old.group(1)),
            gpu_instance=int(old.group(2)),
            compute_instance=int(old.group(3)),
            replica=replica,
            slice_of_gpu=True,
        )
    gke = _GKE.fullmatch(base)
    if gke:
        minor, instance, vgpu = (None if g is None else int(g) for g in gke.groups())
        return DeviceId(
            text,
            minor=minor,
            gpu_instance=instance,
            replica=vgpu if replica is None else replica,
            slice_of_gpu=instance is not None,
        )
    return DeviceId(text, replica=replica, every=base == "all")


def parse_dra_device(name: str) -> DeviceId:
    """Return what the name of a device of the `gpu.nvidia.com` DRA driver says: its minor."""
    match = _DRA.fullmatch(name[:ID_LIMIT])
    if match is None:
        return DeviceId(name[:ID_LIMIT])
    return DeviceId(match.string, minor=int(match.group(1)), slice_of_gpu=bool(match.group(2)))


def _canonical(uuid: str) -> str:
    prefix, _, rest = uuid.partition("-")
    return f"{prefix.upper()}-{rest.lower()}"


def hami_devices(annotation: str) -> tuple[tuple[str, ...], ...]:
    """Return the device UUIDs of each container, by HAMi's annotation.

    Containers end with `;`, devices with `:`, and a device is `UUID,TYPE,memory,cores`.
    """
    containers = annotation[:4_096].split(";")[:128]
    return tuple(
        tuple(
            _canonical(uuid)
            for device in container.split(":")[:64]
            if _GPU.fullmatch(uuid := device.partition(",")[0])
        )
        for container in containers
        if container
    )
