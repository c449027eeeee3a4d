"""The host's driver libraries, as the catalogue wants them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpugauge.discovery.decision import HostLibrary
from gpugauge.discovery.host import LIBRARY_FOLDERS, find_host_drivers, mapped_file_id
from gpugauge.errors import UnavailableError
from gpugauge.model.library import FileId
from gpugauge.settings import Settings
from gpugauge.vendors import Vendor
from gpugauge.vendors.nvml import NvmlInventory
from gpugauge.vendors.nvml_thread import NvmlThread

HOST_INIT_ROOT = "/proc/1/root"
NVML_NAME = "libnvidia-ml.so.1"


def file_id(path: str) -> FileId:
    """Return how Linux names a file in the maps of its users.

    Raises:
        OSError: It is not there.
    """
    name = mapped_file_id(path)
    if name is None:
        empty = Path(path).stat().st_size == 0
        raise OSError(errno.EACCES, "it is empty" if empty else "it cannot be mapped", path)
    return name


def named_libraries(settings: Settings) -> tuple[HostLibrary, ...]:
    """Return the libraries that the settings name.

    Raises:
        UnavailableError: One of them is not there.
    """
    found = []
    for path in settings.attach.libraries:
        real = os.path.realpath(path)
        try:
            found.append(HostLibrary(file_id(real), real, keep=True))
        except OSError as error:
            raise UnavailableError(
                f"{path} cannot be opened ({error.strerror}).",
                "Name a driver library that is there with --attach-libraries.",
            ) from error
    return tuple(found)


def host_root() -> str:
    """Return where the host's root is: the agent may run in a container of its own."""
    try:
        same = Path(HOST_INIT_ROOT).stat() == Path("/").stat()
        return "/" if same else HOST_INIT_ROOT
    except OSError:
        return "/"


def nvml(settings: Settings, vendor: Vendor) -> NvmlThread:
    """Return who asks NVML, from wherever its library is at that time."""
    inventory = NvmlInventory(library_path=partial(nvml_library, settings, vendor))
    return NvmlThread(inventory.read, inventory.release)


def nvml_library(settings: Settings, vendor: Vendor, own_root: str = "/") -> str:
    """Return the NVML library beside the driver library, or "" for the loader's own search.

    The two are of one version. Where the driver lies in a root of its own the loader finds
    neither, and in a container of the agent's own it finds only what a runtime put there.
    """
    named = [os.path.realpath(path) for path in settings.attach.libraries]
    root = host_root()
    alone = root != "/" and not _is_put_into(own_root)
    found = named or [
        driver.path
        for driver in find_host_drivers(vendor, settings.attach.driver_roots, root)
        if driver.own_mount or alone
    ]
    for path in found:
        beside = Path(path).parent / NVML_NAME
        if beside.exists():
            return str(beside)
    return ""


def _is_put_into(root: str) -> bool:
    """Whether NVIDIA's runtime put its library into this container."""
    return any(Path(root, folder, NVML_NAME).exists() for folder in LIBRARY_FOLDERS)


def finder(settings: Settings, vendor: Vendor) -> Callable[[], tuple[HostLibrary, ...]]:
    """Return what finds the host's libraries now: the driver may come, go or be replaced.

    Raises:
        UnavailableError: A library that the settings name is not there.
    """
    if settings.attach.libraries:
        named = named_libraries(settings)
        return lambda: named
    root = host_root()

    def find() -> tuple[HostLibrary, ...]:
        found = []
        for driver in find_host_drivers(vendor, settings.attach.driver_roots, root):
            try:
                name = file_id(driver.path)
            except OSError:
                continue
            found.append(HostLibrary(name, driver.path, keep=not driver.own_mount))
        return tuple(found)

    return find
