"""The Linux side of the driver: modules, numbers, device files, the bus and the libraries."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gpugauge.attribution.driver_minors import driver_minors
from gpugauge.discovery.host import find_host_drivers, parse_driver_version
from gpugauge.explain.evidence import WSL_FILE, DeviceNode, DriverFacts, PciDevice
from gpugauge.explain.gather.places import Places, folder, text
from gpugauge.vendors import CUDA

_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")
"""PCI classes of GPUs: VGA and 3D controllers."""
_FILES = ("nvidia-caps", "nvidia-caps-imex-channels")


def driver_facts(places: Places, driver_roots: Iterable[str]) -> DriverFacts:
    """Return what Linux shows of the driver."""
    modules = text(f"{places.proc}/modules")
    devices = text(f"{places.proc}/devices")
    version = text(f"{places.proc}/driver/nvidia/version", 4_096)
    links = places.names("/dev/char")
    files = device_nodes(places.host("/dev"))
    return DriverFacts(
        loaded_version=parse_driver_version(version.encode()),
        modules=module_names(modules) if modules else None,
        majors=major_numbers(devices) if devices else None,
        devices=files,
        char_links=None if links is None or not files else _linked(links, files),
        pci=_bus(places),
        minors={str(minor): uuid for minor, uuid in driver_minors(places.proc).items()},
        library_versions=tuple(
            sorted({d.version for d in find_host_drivers(CUDA, driver_roots, places.root)} - {""})
        ),
    )


def module_names(modules: str) -> tuple[str, ...]:
    """Return the GPU modules of /proc/modules."""
    names = [line.split(" ", 1)[0] for line in modules.split("\n")[:4_096]]
    return tuple(n for n in names if n.startswith(("nvidia", "nouveau", "vfio")))[:64]


def major_numbers(devices: str) -> dict[str, int]:
    """Return NVIDIA's character devices of /proc/devices: number by name."""
    found = {}
    for line in devices.partition("Block devices:")[0].split("\n")[:4_096]:
        number, _, name = line.strip().partition(" ")
        if number.isdecimal() and len(number) < 9 and name.startswith("nvidia"):
            found[name] = int(number)
    return found


def device_nodes(path: str) -> tuple[DeviceNode, ...] | None:
    """Return NVIDIA's device files in a /dev, None where it cannot be read."""
    names = folder(path) if path else None
    if names is None:
        return None
    wanted = [name for name in names if name.startswith("nvidia") or name == WSL_FILE]
    wanted += [f"{f}/{n}" for f in _FILES if f in names for n in folder(f"{path}/{f}") or ()]
    found = (device_node(path, name) for name in wanted[:512])
    return tuple(one for one in found if one is not None)


def device_node(path: str, name: str) -> DeviceNode | None:
    """Return a device file, None for what is none."""
    try:
        status = os.lstat(f"{path}/{name}")
    except OSError:
        return None
    if stat.S_ISCHR(status.st_mode):
        return DeviceNode(name, os.major(status.st_rdev), os.minor(status.st_rdev))
    return None


def _linked(links: tuple[str, ...], files: tuple[DeviceNode, ...]) -> bool:
    return all(f"{d.major}:{d.minor}" in links for d in files if d.name == "nvidiactl")


def _bus(places: Places) -> tuple[PciDevice, ...] | None:
    root = f"{places.sys}/bus/pci/devices"
    addresses = folder(root)
    if addresses is None:
        return None
    found = []
    for address in addresses:
        if text(f"{root}/{address}/vendor", 16).strip() != _NVIDIA:
            continue
        if not text(f"{root}/{address}/class", 16).startswith(_DISPLAY):
            continue
        try:
            driver = Path(f"{root}/{address}/driver").readlink().name
        except OSError:
            driver = ""
        found.append(PciDevice(address[:32], driver[:32]))
    return tuple(found)
