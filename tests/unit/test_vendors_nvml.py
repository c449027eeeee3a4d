"""The inventory, from a stand-in for the binding that answers, refuses and lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.model.device import DeviceProcess, Inventory
from gpugauge.vendors import nvml_values
from gpugauge.vendors.nvml import DEVICES_LIMIT, FATAL, NvmlInventory

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 3, 4, 6, 13, 15
UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, VERSIONS_DIFFER = 1, 9, 12, 18
GIB = 1 << 30


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    pass


def running(pid: int, used: int | None, gpu: int | None = None, ci: int | None = None) -> Any:
    none = nvml_values.NOT_AVAILABLE
    return SimpleNamespace(
        pid=pid,
        usedGpuMemory=used,
        gpuInstanceId=none if gpu is None else gpu,
        computeInstanceId=none if ci is None else ci,
    )


@dataclass
class Gpu:
    uuid: str
    name: str = "NVIDIA H200"
    total: int = 141 * GIB
    used: int = 3 * GIB
    reserved: int = 1 * GIB
    busy: int = 37
    mode: int = 0
    compute: list[Any] = field(default_factory=list)
    graphics: list[Any] = field(default_factory=list)
    mps: list[Any] = field(default_factory=list)
    instances: dict[int, Gpu] = field(default_factory=dict)
    ids: tuple[int, int] = (0, 0)


class FakeFunction:
    def __init__(self, call: Any) -> None:
        self.call = call
        self.argtypes: list[Any] = []

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class Binding:
    """The names of `pynvml` that the inventory uses, over a list of GPUs."""

    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError
    NVML_ERROR_LIBRARY_NOT_FOUND = LIBRARY_NOT_FOUND
    nvmlMemory_v2 = 0x02000028
    c_void_p = int
    c_uint = staticmethod(lambda value: SimpleNamespace(value=value))
    byref = staticmethod(lambda value: value)

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = list(gpus)
        self.refusals: dict[str, int | Exception] = {}
        self.nvmlLib: Any = None
        self._nvmlGetFunctionPointer_cache = {"nvmlInit": object()}
        self.log: list[str] = []
        self.lie: int | None = None
        self.files: set[str] = set()

    def CDLL(self, path: str | None) -> Any:
        if path is None:
            return SimpleNamespace(dlclose=FakeFunction(lambda h: self.log.append(f"dlclose {h}")))
        if path not in self.files:
            raise OSError(path)
        self.log.append(f"load {path}")
        return SimpleNamespace(_handle=97)

    def __getattr__(self, name: str) -> Any:
        if not name.lstrip("_").startswith("nvml"):
            raise AttributeError(name)
        answer = getattr(type(self), "do_" + name, None)
        if answer is None:
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            for key in (name, f"{name}({arguments[0]})" if arguments else name):
                refusal = self.refusals.get(key)
                if isinstance(refusal, Exception):
                    raise refusal
                if refusal is not None:
                    raise NVMLError(refusal)
            return answer(self, *arguments, **options)

        return call

    def do_nvmlInit(self) -> None:
        self.log.append("init")
        if self.nvmlLib is None:
            self.nvmlLib = SimpleNamespace(_handle=89)

    def do_nvmlShutdown(self) -> None:
        self.log.append("shutdown")

    def do_nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def do_nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def do_nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def do_nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return self.gpus[index]

    def do_nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return gpu.uuid

    def do_nvmlDeviceGetName(self, gpu: Gpu) -> str:
        return gpu.name

    def do_nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(busId=b"00000000:17:00.0")

    def do_nvmlDeviceGetMemoryInfo(self, gpu: Gpu, version: int | None = None) -> Any:
        if version is None:
            return SimpleNamespace(total=gpu.total, used=gpu.used + gpu.reserved)
        return SimpleNamespace(total=gpu.total, used=gpu.used, reserved=gpu.reserved)

    def do_nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:
        return SimpleNamespace(gpu=gpu.busy, memory=11)

    def do_nvmlDeviceGetComputeMode(self, gpu: Gpu) -> int:
        return gpu.mode

    def do__nvmlGetFunctionPointer(self, name: str) -> Any:
        if self.refusals.get(name) == FUNCTION_NOT_FOUND:
            raise NVMLError(FUNCTION_NOT_FOUND)
        if not hasattr(type(self), "do_" + name):
            raise NVMLError(FUNCTION_NOT_FOUND)

        def function(gpu: Gpu, count: Any, entries: None) -> int:
            lists = {"Compute": gpu.compute, "Graphics": gpu.graphics, "MPS": gpu.mps}
            found = next(v for k, v in lists.items() if f"Get{k}" in name)
            count.value = self.lie if self.lie is not None else len(found)
            return 7

        return function

    def do_nvmlDeviceGetComputeRunningProcesses_v3(self, gpu: Gpu) -> list[Any]:
        return gpu.compute

    def do_nvmlDeviceGetComputeRunningProcesses_v2(self, gpu: Gpu) -> list[Any]:
        return gpu.compute

    def do_nvmlDeviceGetGraphicsRunningProcesses_v3(self, gpu: Gpu) -> list[Any]:
        return gpu.graphics

    def do_nvmlDeviceGetMPSComputeRunningProcesses_v3(self, gpu: Gpu) -> list[Any]:
        return gpu.mps

    def do_nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        return [1, 1] if gpu.instances else [0, 0]

    def do_nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return 7

    def do_nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, slot: int) -> Gpu:
        if slot not in gpu.instances:
            raise NVMLError(NOT_FOUND)
        return gpu.instances[slot]

    def do_nvmlDeviceGetGpuInstanceId(self, gpu: Gpu) -> int:
        return gpu.ids[0]

    def do_nvmlDeviceGetComputeInstanceId(self, gpu: Gpu) -> int:
        return gpu.ids[1]


def read(binding: Binding) -> Inventory:
    return NvmlInventory(binding).read()


def test_a_gpu_as_nvml_tells_it() -> None:
    inventory = read(Binding(Gpu("GPU-2", compute=[running(17, 5 * GIB)], mode=3)))
    assert (inventory.driver_version, inventory.cuda_version) == ("580.159.04", "13.0")
    assert inventory.error == ""
    (device,) = inventory.devices
    assert (device.uuid, device.index, device.model) == ("GPU-2", 0, "NVIDIA H200")
    assert device.pci_bus_id == "00000000:17:00.0"
    assert device.memory_total_bytes == 141 * GIB
    assert (device.memory_used_bytes, device.memory_reserved_bytes) == (3 * GIB, 1 * GIB)
    assert (device.utilization_ratio, device.compute_mode) == (0.37, "exclusive_process")
    assert device.processes == (DeviceProcess(17, 5 * GIB, "compute"),)
    assert (device.mig_parent_uuid, device.gpu_instance, device.simulated) == ("", None, False)


def test_lists_are_joined_and_a_process_counts_once() -> None:
    gpu = Gpu(
        "GPU-2",
        compute=[running(17, 5), running(19, 7), running(23, None)],
        graphics=[running(19, 7), running(29, 11)],
        mps=[running(23, 13)],
    )
    (device,) = read(Binding(gpu)).devices
    assert device.processes is not None
    assert sorted(device.processes, key=lambda p: p.pid) == [
        DeviceProcess(17, 5, "compute"),
        DeviceProcess(19, 7, "compute"),
        DeviceProcess(23, 13, "mps"),
        DeviceProcess(29, 11, "graphics"),
    ]


def test_memory_that_nvml_does_not_tell_is_none() -> None:
    gpu = Gpu("GPU-2", compute=[running(17, None), running(19, (1 << 64) - 1), running(0, 5)])
    (device,) = read(Binding(gpu)).devices
    assert device.processes == (DeviceProcess(17, None), DeviceProcess(19, None))


FIELDS = {
    "nvmlDeviceGetUUID": {"uuid": "unknown"},
    "nvmlDeviceGetName": {"model": "unknown"},
    "nvmlDeviceGetPciInfo": {"pci_bus_id": "unknown"},
    "nvmlDeviceGetMemoryInfo": {
        "memory_total_bytes": None,
        "memory_used_bytes": None,
        "memory_reserved_bytes": None,
    },
    "nvmlDeviceGetUtilizationRates": {"utilization_ratio": None},
    "nvmlDeviceGetComputeMode": {"compute_mode": "unknown"},
    "nvmlDeviceGetGraphicsRunningProcesses_v3": {},
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": {},
    "nvmlDeviceGetMigMode": {},
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "refusal",
    [NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, 999, NVMLLibraryMismatchError(), ValueError()],
)
def test_a_refusal_costs_its_field_and_nothing_else(name: str, refusal: int | Exception) -> None:
    binding = Binding(Gpu("GPU-2", compute=[running(17, 5)]))
    (whole,) = read(binding).devices
    binding.refusals[name] = refusal
    inventory = read(binding)
    (device,) = inventory.devices
    changed = {
        key: getattr(device, key)
        for key in whole.__slots__
        if getattr(device, key) != getattr(whole, key)
    }
    assert changed == FIELDS[name]
    assert inventory.error == ""


@pytest.mark.parametrize("name", ["SystemGetDriverVersion", "SystemGetCudaDriverVersion_v2"])
def test_a_missing_version_is_empty(name: str) -> None:
    binding = Binding(Gpu("GPU-2"))
    binding.refusals["nvml" + name] = NOT_SUPPORTED
    inventory = read(binding)
    assert "" in (inventory.driver_version, inventory.cuda_version)
    assert len(inventory.devices) == 1 and inventory.error == ""


def test_an_old_driver_has_processes_by_the_older_name_and_memory_without_reserved() -> None:
    binding = Binding(Gpu("GPU-2", compute=[running(17, 5)]))
    binding.refusals["nvmlDeviceGetComputeRunningProcesses_v3"] = FUNCTION_NOT_FOUND
    binding.nvmlMemory_v2 = 0
    (device,) = read(binding).devices
    assert device.processes == (DeviceProcess(17, 5),)
    assert (device.memory_used_bytes, device.memory_reserved_bytes) == (4 * GIB, None)


def test_unknown_processes_are_none_and_not_nobody() -> None:
    binding = Binding(Gpu("GPU-2", graphics=[running(29, 11)]))
    binding.refusals["nvmlDeviceGetComputeRunningProcesses_v3"] = NO_PERMISSION
    (device,) = read(binding).devices
    assert device.processes is None


@pytest.mark.parametrize("count", [16385, (1 << 32) - 1])
def test_a_count_of_processes_that_cannot_be_makes_no_array(count: int) -> None:
    binding = Binding(Gpu("GPU-2", compute=[running(17, 5)]))
    binding.lie = count
    binding.refusals["nvmlDeviceGetComputeRunningProcesses_v3"] = AssertionError("was asked")
    (device,) = read(binding).devices
    assert device.processes is None


def test_a_lost_gpu_stays_in_the_list() -> None:
    binding = Binding(Gpu("GPU-2"), Gpu("GPU-3"), Gpu("GPU-5"))
    binding.refusals["nvmlDeviceGetHandleByIndex(1)"] = GPU_IS_LOST
    devices = read(binding).devices
    assert [(d.uuid, d.index) for d in devices] == [("GPU-2", 0), ("unknown", 1), ("GPU-5", 2)]
    assert devices[1].processes is None and devices[1].memory_total_bytes is None


def sliced() -> Gpu:
    name = "NVIDIA H200 MIG 1g.18gb"
    return Gpu(
        "GPU-2",
        compute=[running(17, 5, 7, 0), running(19, 7, 8, 0), running(23, 11)],
        instances={
            0: Gpu("MIG-a", name, total=18 * GIB, ids=(7, 0), compute=[running(17, 5, 7, 0)]),
            3: Gpu("MIG-b", name, total=18 * GIB, ids=(8, 0), compute=[running(19, 7, 8, 0)]),
        },
    )


def test_mig_instances_follow_their_gpu() -> None:
    gpu, first, second = read(Binding(sliced())).devices
    assert gpu.processes == (DeviceProcess(23, 11),)
    assert (first.uuid, first.mig_parent_uuid, first.mig_profile) == ("MIG-a", "GPU-2", "1g.18gb")
    assert (first.model, first.index, first.memory_total_bytes) == ("NVIDIA H200", 0, 18 * GIB)
    assert (first.gpu_instance, first.compute_instance) == (7, 0)
    assert first.processes == (DeviceProcess(17, 5),)
    assert (second.uuid, second.gpu_instance) == ("MIG-b", 8)
    assert second.processes == (DeviceProcess(19, 7),)


def test_processes_of_an_instance_come_from_its_gpu_where_it_does_not_tell() -> None:
    gpu = sliced()
    binding = Binding(gpu)
    refused = f"nvmlDeviceGetComputeRunningProcesses_v3({gpu.instances[3]})"
    binding.refusals[refused] = NOT_SUPPORTED
    _, first, second = read(binding).devices
    assert first.processes == (DeviceProcess(17, 5),)
    assert second.processes == (DeviceProcess(19, 7),)


def test_instances_without_ids_still_tell_their_own_processes() -> None:
    binding = Binding(sliced())
    binding.refusals["nvmlDeviceGetGpuInstanceId"] = NOT_SUPPORTED
    _, first, _ = read(binding).devices
    assert first.gpu_instance is None
    assert first.processes == (DeviceProcess(17, 5),)


SENTENCES = {
    UNINITIALIZED: "NVML lost its session.",
    DRIVER_NOT_LOADED: "The NVIDIA driver is not loaded.",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found.",
    VERSIONS_DIFFER: "The NVML library and the loaded NVIDIA driver differ in version.",
}


@pytest.mark.parametrize("code", sorted(FATAL))
def test_a_driver_that_is_not_there_is_an_error_and_found_when_it_appears(code: int) -> None:
    binding = Binding(Gpu("GPU-2"))
    inventory = NvmlInventory(binding)
    binding.refusals["nvmlInit"] = code
    assert inventory.read() == Inventory((), "", "", error=SENTENCES[code])
    assert inventory.read().devices == ()
    del binding.refusals["nvmlInit"]
    assert [d.uuid for d in inventory.read().devices] == ["GPU-2"]


@pytest.mark.parametrize("code", sorted(FATAL))
@pytest.mark.parametrize("name", ["nvmlDeviceGetCount", "nvmlDeviceGetName"])
def test_a_dead_session_is_closed_and_a_new_one_begun(name: str, code: int) -> None:
    binding = Binding(Gpu("GPU-2"))
    inventory = NvmlInventory(binding)
    assert inventory.read().error == ""
    binding.refusals[name] = code
    assert inventory.read().error == SENTENCES[code]
    assert binding.log == ["init", "shutdown", "dlclose 89"]
    assert binding.nvmlLib is None and binding._nvmlGetFunctionPointer_cache == {}
    binding.refusals.clear()
    assert [d.uuid for d in inventory.read().devices] == ["GPU-2"]
    assert binding.log == ["init", "shutdown", "dlclose 89", "init"]


def test_another_error_keeps_the_session() -> None:
    binding = Binding(Gpu("GPU-2"))
    inventory = NvmlInventory(binding)
    binding.refusals["nvmlDeviceGetCount"] = 999
    assert inventory.read().error == "NVML answered 999: code 999."
    binding.refusals.clear()
    assert inventory.read().error == ""
    assert binding.log == ["init"]


def test_release_lets_go_of_the_library_even_if_shutdown_fails() -> None:
    binding = Binding(Gpu("GPU-2"))
    inventory = NvmlInventory(binding)
    inventory.release()
    assert binding.log == []
    inventory.read()
    binding.refusals["nvmlShutdown"] = UNINITIALIZED
    inventory.release()
    inventory.release()
    assert binding.log == ["init", "dlclose 89"]


def test_a_driver_root_is_loaded_from_its_path() -> None:
    path = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    binding = Binding(Gpu("GPU-2"))
    inventory = NvmlInventory(binding, library_path=path)
    assert inventory.read().error == "libnvidia-ml.so.1 was not found."
    binding.files.add(path)
    assert [d.uuid for d in inventory.read().devices] == ["GPU-2"]
    inventory.release()
    assert binding.log == [f"load {path}", "init", "shutdown", "dlclose 97"]


def test_a_driver_root_that_comes_later_is_found() -> None:
    path = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    binding = Binding(Gpu("GPU-2"))
    there = [""]
    binding.refusals["nvmlInit"] = 12  # the loader finds none
    inventory = NvmlInventory(binding, library_path=lambda: there[0])
    assert inventory.read().devices == ()
    del binding.refusals["nvmlInit"]
    binding.files.add(path)
    there[0] = path
    assert [d.uuid for d in inventory.read().devices] == ["GPU-2"]
    assert f"load {path}" in binding.log


@pytest.mark.parametrize("count", [-1, DEVICES_LIMIT + 1, (1 << 32) - 1])
def test_an_absurd_count_is_refused(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Binding, "do_nvmlDeviceGetCount", lambda self: count)
    inventory = read(Binding(Gpu("GPU-2")))
    assert inventory.devices == ()
    assert inventory.error == f"NVML counts {count} devices."


def test_a_simulated_driver_says_so_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "580.0.0-simulated"
    monkeypatch.setattr(Binding, "do_nvmlSystemGetDriverVersion", lambda self: name)
    inventory = read(Binding(Gpu("GPU-2"), sliced()))
    assert inventory.driver_version == name
    assert [device.simulated for device in inventory.devices] == [True] * 4


ANYTHING = st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.floats(), st.booleans())


@given(ANYTHING)
def test_texts_are_short_and_printable(value: object) -> None:
    text = nvml_values.text(value)
    assert 0 < len(text) <= nvml_values.TEXT_LIMIT
    assert text.isprintable()


@given(ANYTHING)
def test_numbers_are_plausible_or_none(value: object) -> None:
    size = nvml_values.size_bytes(value)
    assert size is None or 0 <= size < 1 << 60
    ratio = nvml_values.ratio(value)
    assert ratio is None or 0 <= ratio <= 1
    entry = SimpleNamespace(pid=value, usedGpuMemory=value)
    process = nvml_values.process(entry, "compute")
    assert process is None or 0 < process.pid < 1 << 32


@pytest.mark.parametrize(
    ("number", "shown"), [(13000, "13.0"), (12090, "12.9"), (11080, "11.8"), (0, ""), (None, "")]
)
def test_cuda_versions(number: int | None, shown: str) -> None:
    assert nvml_values.cuda_version(number) == shown


def test_the_binding_has_every_name_that_is_used() -> None:
    names = {name.removeprefix("do_") for name in vars(Binding) if name.startswith("do_")}
    names |= {"NVMLError", "NVMLLibraryMismatchError", "NVML_ERROR_LIBRARY_NOT_FOUND"}
    names |= {
        "nvmlMemory_v2",
        "c_void_p",
        "c_uint",
        "byref",
        "CDLL",
        "nvmlLib",
        "_nvmlGetFunctionPointer_cache",
    }
    assert [name for name in sorted(names) if not hasattr(pynvml, name)] == []
    codes = ("UNINITIALIZED", "DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND", "LIB_RM_VERSION_MISMATCH")
    assert {getattr(pynvml, "NVML_ERROR_" + code) for code in codes} == FATAL
