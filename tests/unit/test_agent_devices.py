"""NVML is asked while GPUs are used, and let go when they are not."""

from __future__ import annotations

from dataclasses import replace

from gpugauge.agent.devices import (
    ASK_SECONDS,
    IDLE_ASK_SECONDS,
    LISTED,
    UNKNOWN_ASK_SECONDS,
    Devices,
)
from gpugauge.model.device import Device, DeviceProcess, Inventory

DEVICE = Device(
    uuid="GPU-1", index=0, model="H200", pci_bus_id="", memory_total_bytes=7, memory_used_bytes=5,
    memory_reserved_bytes=0, utilization_ratio=0.5, compute_mode="",
    processes=(DeviceProcess(71, 3), DeviceProcess(73, 3, kind="mps")),
)  # fmt: skip


class Nvml:
    """In place of the thread that asks."""

    def __init__(self) -> None:
        self.asked = self.releases = 0
        self.hangs = self.hanging = False
        self.answer = Inventory((DEVICE,), "580", "13")

    def inventory(self) -> Inventory:
        self.asked += 1
        return self.answer

    def release(self) -> bool:
        self.releases += 1
        return not self.hangs

    def close(self) -> bool:
        return True


class Bench:
    def __init__(self) -> None:
        self.now = 100.0
        self.nvml = Nvml()
        self.devices = Devices(self.nvml, lambda: self.now)  # type: ignore[arg-type]

    def ask(self, in_use: bool = True, after: float = ASK_SECONDS) -> bool:
        self.now += after
        return self.devices.ask(in_use=in_use)


def test_it_is_asked_every_two_seconds() -> None:
    bench = Bench()
    assert bench.ask()
    assert not bench.ask(after=0.5)
    assert bench.devices.inventory.age_ns == 500_000_000
    assert bench.ask(after=1.5)
    assert bench.nvml.asked == 2
    assert bench.devices.listed() == {71: LISTED}


def test_it_is_let_go_when_nobody_uses_a_gpu_and_taken_up_again() -> None:
    bench = Bench()
    bench.ask()
    for _ in range(3):
        assert not bench.ask(in_use=False)
    assert bench.nvml.releases == 1
    assert bench.devices.released
    (device,) = bench.devices.inventory.devices
    assert (device.utilization_ratio, device.memory_used_bytes) == (None, None)
    assert device.memory_total_bytes == 7
    assert bench.ask()
    assert not bench.devices.released
    assert bench.devices.inventory.devices == (DEVICE,)


def test_a_hanging_nvml_is_asked_to_let_go_again_later() -> None:
    bench = Bench()
    bench.ask()
    bench.nvml.hangs = True
    bench.ask(in_use=False)
    assert not bench.devices.released
    bench.nvml.hangs = False
    bench.ask(in_use=False)
    assert bench.devices.released


def test_gpus_that_nobody_ever_used_are_known() -> None:
    bench = Bench()
    assert bench.ask(in_use=False)
    assert not bench.ask(in_use=False)
    assert bench.devices.released
    (device,) = bench.devices.inventory.devices
    assert (device.uuid, device.model) == (DEVICE.uuid, DEVICE.model)
    assert not bench.ask(in_use=False, after=IDLE_ASK_SECONDS - 2 * ASK_SECONDS)
    assert bench.ask(in_use=False)
    assert bench.nvml.asked == 2


def test_a_gpu_that_wakes_slowly_is_known_too() -> None:
    """Its handle is not closed before the answer is there."""
    bench = Bench()
    answer, bench.nvml.answer = bench.nvml.answer, Inventory((), "", "", error="Not answering.")
    bench.nvml.hanging = True
    assert bench.ask(in_use=False)
    assert not bench.ask(in_use=False)
    assert (bench.nvml.asked, bench.nvml.releases) == (1, 0)
    bench.nvml.answer, bench.nvml.hanging = answer, False
    assert bench.ask(in_use=False)
    assert bench.devices.inventory.devices == (DEVICE,)
    assert not bench.ask(in_use=False)
    assert bench.devices.released


def test_the_first_use_is_asked_about_at_once() -> None:
    bench = Bench()
    bench.ask(in_use=False)
    bench.ask(in_use=False)
    assert bench.devices.released
    assert bench.ask(after=0.01)


def test_a_driver_that_comes_later_is_found() -> None:
    bench = Bench()
    bench.nvml.answer = replace(bench.nvml.answer, devices=(), error="NVML is not there.")
    assert bench.ask(in_use=False)
    assert not bench.ask(in_use=False, after=UNKNOWN_ASK_SECONDS / 2)
    bench.nvml.answer = replace(bench.nvml.answer, devices=(DEVICE,), error="")
    assert bench.ask(in_use=False, after=UNKNOWN_ASK_SECONDS / 2)
    assert not bench.ask(in_use=False)
    assert bench.devices.inventory.devices


def test_a_list_of_before_names_nobody() -> None:
    """NVML hangs: processes of its last list may have ended."""
    bench = Bench()
    bench.nvml.answer = replace(bench.nvml.answer, error="NVML not answering since 3 s.")
    bench.ask()
    assert bench.devices.listed() == {}
