"""The device inventory by NVML: GPUs, MIG instances, their memory, and who is on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpugauge.model.device import Device, DeviceProcess, Inventory
from gpugauge.vendors.nvml_library import NAME, NvmlLibrary
from gpugauge.vendors.nvml_values import (
    COMPUTE_MODES,
    UNKNOWN,
    Questions,
    cuda_version,
    instance,
    process,
    ratio,
    size_bytes,
    text,
)

DEVICES_LIMIT = 128
"""Of GPUs, and of MIG instances of one: a larger count is a lie."""
SIMULATED = "-simulated"
"""How the driver version of this project's simulated NVML ends; NVIDIA's are digits and dots."""

# nvml.h: nvmlReturn_t after which a new session is needed.
_UNINITIALIZED, _DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _VERSIONS_DIFFER = 1, 9, 12, 18
FATAL = frozenset({_UNINITIALIZED, _DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _VERSIONS_DIFFER})

_SENTENCES = {
    _UNINITIALIZED: "NVML lost its session.",
    _DRIVER_NOT_LOADED: "The NVIDIA driver is not loaded.",
    _LIBRARY_NOT_FOUND: f"{NAME} was not found.",
    _VERSIONS_DIFFER: "The NVML library and the loaded NVIDIA driver differ in version.",
}

_LISTS = (
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
)
"""A process in several lists is what the first one says: a client of MPS is in two."""

Listed = tuple[tuple[DeviceProcess, tuple[int, int] | None], ...]


class NvmlInventory:
    """Reads the inventory, and starts a new session when the driver came, went or changed."""

    def __init__(self, api: Any = None, library_path: str | Callable[[], str] = "") -> None:
        """Take where the library is.

        Args:
            api: The module `pynvml`, or a stub with its names; None imports it.
            library_path: The library's file in a driver root, or what finds it; "" leaves
                the search to the dynamic loader (`nvml_library`).
        """
        if api is None:
            import pynvml  # 11 MB of memory, only where NVML is used

            api = pynvml
        self._api = api
        self._library = NvmlLibrary(api, library_path)
        self._questions = Questions(api, FATAL)

    def read(self) -> Inventory:
        """Return what NVML answers now; why it does not is in `error`, nothing is raised.

        May hang for as long as the driver does: call it through `NvmlThread`.
        """
        try:
            self._library.open()
            return self._inventory()
        except self._api.NVMLError as error:
            if error.value in FATAL:
                self._library.close()
            return Inventory((), "", "", error=self._sentence(error))

    def release(self) -> None:
        """Close the driver's handle and unmap the library; the next read opens it again."""
        self._library.close()

    def _sentence(self, error: Any) -> str:
        known = _SENTENCES.get(error.value)
        return known or f"NVML answered {error.value}: {text(str(error))}."

    def _inventory(self) -> Inventory:
        count = self._api.nvmlDeviceGetCount()
        if not 0 <= count <= DEVICES_LIMIT:
            return Inventory((), "", "", error=f"NVML counts {count} devices.")
        answer = self._questions.ask("nvmlSystemGetDriverVersion")
        driver = "" if answer is None else text(answer)
        devices: list[Device] = []
        for index in range(count):
            devices += self._gpu(index)
        if driver.endswith(SIMULATED):
            devices = [replace(device, simulated=True) for device in devices]
        return Inventory(
            tuple(devices),
            driver_version=driver,
            cuda_version=cuda_version(self._questions.ask("nvmlSystemGetCudaDriverVersion_v2")),
        )

    def _gpu(self, index: int) -> list[Device]:
        ask = self._questions.ask
        handle = ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            return [self._lost(index)]
        listed = self._processes(handle)
        gpu = self._device(handle, index)
        mode = ask("nvmlDeviceGetMigMode", handle)
        if not mode or mode[0] != 1:
            return [replace(gpu, processes=None if listed is None else _of(listed))]
        instances = self._instances(handle, gpu, listed)
        # What runs in an instance is the instance's, not the GPU's.
        alone = None if listed is None else tuple(p for p, where in listed if where is None)
        return [replace(gpu, processes=alone), *instances]

    def _lost(self, index: int) -> Device:
        return Device(
            uuid=UNKNOWN,
            index=index,
            model=UNKNOWN,
            pci_bus_id=UNKNOWN,
            memory_total_bytes=None,
            memory_used_bytes=None,
            memory_reserved_bytes=None,
            utilization_ratio=None,
            compute_mode=UNKNOWN,
            processes=None,
        )

    def _device(self, handle: Any, index: int) -> Device:
        ask = self._questions.ask
        total, used, reserved = self._memory(handle)
        utilization = ask("nvmlDeviceGetUtilizationRates", handle)
        pci = ask("nvmlDeviceGetPciInfo", handle)
        return Device(
            uuid=text(ask("nvmlDeviceGetUUID", handle)),
            index=index,
            model=text(ask("nvmlDeviceGetName", handle)),
            pci_bus_id=text(getattr(pci, "busId", None)),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_reserved_bytes=reserved,
            utilization_ratio=ratio(getattr(utilization, "gpu", None)),
            compute_mode=COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle), UNKNOWN),
        )

    def _memory(self, handle: Any) -> tuple[int | None, int | None, int | None]:
        """Return total, used and reserved bytes; before NVML 11.5 used includes reserved."""
        ask = self._questions.ask
        version = getattr(self._api, "nvmlMemory_v2", None)
        memory = ask("nvmlDeviceGetMemoryInfo", handle, version=version) if version else None
        if memory is None:
            memory = ask("nvmlDeviceGetMemoryInfo", handle)
        return (
            size_bytes(getattr(memory, "total", None)),
            size_bytes(getattr(memory, "used", None)),
            size_bytes(getattr(memory, "reserved", None)),
        )

    def _processes(self, handle: Any) -> Listed | None:
        """Return the processes on a device with their MIG instance, None where NVML is silent."""
        found: dict[int, tuple[DeviceProcess, tuple[int, int] | None]] = {}
        for kind, name in _LISTS:
            entries = self._questions.processes(name, handle)
            if entries is None:
                if kind == "compute":
                    return None
                continue
            for entry in entries:
                one = process(entry, kind)
                if one is None:
                    continue
                known = found.setdefault(one.pid, (one, instance(entry)))
                if known[0].memory_held_bytes is None:
                    held = replace(known[0], memory_held_bytes=one.memory_held_bytes)
                    found[one.pid] = (held, known[1])
        return tuple(found.values())

    def _instances(self, handle: Any, gpu: Device, listed: Listed | None) -> list[Device]:
        ask = self._questions.ask
        slots = ask("nvmlDeviceGetMaxMigDeviceCount", handle)
        found = []
        for slot in range(min(slots or 0, DEVICES_LIMIT)):
            mig = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot)
            if mig is not None:
                found.append(self._instance(mig, gpu, listed))
        return found

    def _instance(self, mig: Any, gpu: Device, listed: Listed | None) -> Device:
        ask = self._questions.ask
        ids = (
            ask("nvmlDeviceGetGpuInstanceId", mig),
            ask("nvmlDeviceGetComputeInstanceId", mig),
        )
        own = self._processes(mig)
        if own is not None:
            processes: tuple[DeviceProcess, ...] | None = _of(own)
        elif listed is None or None in ids:
            processes = None
        else:
            processes = tuple(p for p, where in listed if where == ids)
        device = self._device(mig, gpu.index)
        # NVML answers "NVIDIA H200 MIG 1g.18gb" for an instance.
        model, _, profile = device.model.partition(" MIG ")
        return replace(
            device,
            model=gpu.model if model == UNKNOWN else model,
            pci_bus_id=gpu.pci_bus_id,
            compute_mode=gpu.compute_mode,
            mig_parent_uuid=gpu.uuid,
            mig_profile=profile,
            gpu_instance=ids[0],
            compute_instance=ids[1],
            processes=processes,
        )


def _of(listed: Listed) -> tuple[DeviceProcess, ...]:
    return tuple(one for one, _ in listed)
