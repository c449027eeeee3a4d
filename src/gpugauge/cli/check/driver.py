"""What `gpugauge check` says of the driver: its libraries, their sites, and NVML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpugauge.agent.hosts import file_id, host_root
from gpugauge.cli.check.line import Line, State
from gpugauge.discovery.host import find_host_drivers, loaded_driver_version
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.names import clean
from gpugauge.discovery.scan import ProcScanner
from gpugauge.errors import GpugaugeError
from gpugauge.model.device import Inventory
from gpugauge.model.library import Library, SiteKind
from gpugauge.settings import Settings
from gpugauge.units import NS_PER_SECOND
from gpugauge.vendors import VENDORS, Vendor
from gpugauge.vendors.nvml import NvmlInventory
from gpugauge.vendors.nvml_thread import NvmlThread

SHOWN = 3
"""Names shown of a longer list."""


def library_lines(settings: Settings) -> Iterator[Line]:
    """Yield a line for each driver library of this node."""
    found = list(libraries(settings))
    names = [(vendor, Path(path).name) for vendor, path, _ in found]
    yield from version_lines(loaded_driver_version(), (v.library_version(n) for v, n in names))
    for vendor, path, shown in found:
        yield library_line(vendor, path, shown)
    if not found:
        yield Line(
            State.WARN,
            "driver library",
            "None was found on this node.",
            "Install the driver, or name the library with --attach-libraries.",
        )


def libraries(settings: Settings) -> Iterator[tuple[Vendor, str, str]]:
    """Yield (vendor, path, path as shown).

    Those that the settings name and no others; else the host's, and those that processes map.
    """
    for vendor in VENDORS:
        if settings.attach.libraries:
            yield from ((vendor, os.path.realpath(p), p) for p in settings.attach.libraries)
            continue
        seen = set()
        for host in find_host_drivers(vendor, settings.attach.driver_roots, host_root()):
            seen.add(file_id(host.path))
            yield vendor, host.path, host.path
        scan = ProcScanner(LibraryNames(vendor.library_patterns)).scan()
        for mapped, users in scan.users().items():
            found, mapping = users[0]
            if mapped not in seen:
                path = f"/proc/{found.pid}/map_files/{mapping.map_files_name}"
                yield vendor, path, mapping.path


def version_lines(loaded: str, versions: Iterable[str]) -> Iterator[Line]:
    """Yield a line about the driver that Linux has loaded, beside the libraries found."""
    if not loaded:
        yield Line(
            State.WARN, "driver", "Linux has no NVIDIA driver loaded.", "Load it: modprobe nvidia."
        )
        return
    others = sorted({version for version in versions if version not in ("", loaded)})
    if others:
        told = f"Linux has {loaded} loaded, and there is a library of {_some(others)}."
        remedy = "Programs that take that library fail until both are of one version: reboot."
        yield Line(State.WARN, "driver", told, remedy)
    else:
        yield Line(State.OK, "driver", loaded)


def library_line(vendor: Vendor, path: str, shown: str) -> Line:
    """Return how it stands with one library: what it exports, and where probes may go."""
    try:
        library = Inspector(vendor).inspect(path, shown_path=shown).library
    except GpugaugeError as error:
        return Line(
            State.FAILED, "driver library", f"{clean(shown)}: {error.sentence}", error.next_step
        )
    return sites_line(library)


def sites_line(library: Library) -> Line:
    """Return how many functions of a library can be probed, and which cannot."""
    refused = [site.symbol for site in library.sites if site.kind is SiteKind.NONE]
    legal = len(library.sites) - len(refused)
    version = f" ({library.version})" if library.version else ""
    told = f"{library.shown_path}{version}: {legal} of {len(library.sites)} functions have a site."
    if not legal:
        remedy = "It is no driver library, or one whose entries are of a new shape."
        return Line(State.FAILED, "driver library", told, remedy)
    remedy = f"`gpugauge functions {library.shown_path}` tells more."
    if refused:
        return Line(State.WARN, "driver library", f"{told} Without: {_some(refused)}.", remedy)
    if library.unknown_symbols:
        names = _some(library.unknown_symbols)
        return Line(State.WARN, "driver library", f"{told} In no row: {names}.", remedy)
    return Line(State.OK, "driver library", told)


def nvml_lines(deadline_seconds: float = 5.0) -> Iterator[Line]:
    """Yield what NVML says, a line a device."""
    nvml = NvmlInventory()
    thread = NvmlThread(nvml.read, nvml.release, int(deadline_seconds * NS_PER_SECOND))
    try:
        yield from inventory_lines(thread.inventory())
    finally:
        thread.close()


def inventory_lines(inventory: Inventory) -> Iterator[Line]:
    """Yield a line for NVML and one for each device."""
    if inventory.error:
        yield Line(
            State.WARN,
            "nvml",
            inventory.error,
            "Devices stay `unknown`, and held memory is absent, until it answers.",
        )
        return
    yield Line(
        State.OK, "nvml", f"driver {inventory.driver_version}, CUDA {inventory.cuda_version}"
    )
    for device in inventory.devices:
        more = ", simulated" if device.simulated else ""
        yield Line(State.OK, f"gpu {device.index}", f"{device.model} {device.uuid}{more}")


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
