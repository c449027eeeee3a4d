"""The host's driver libraries, as the catalogue wants them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
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
    neither; in a container of the agent's own a runtime may have put NVML into a place where
    no loader looks, or nowhere.
    """
    if settings.attach.libraries:
        return _beside(os.path.realpath(path) for path in settings.attach.libraries)
    root = host_root()
    drivers = find_host_drivers(vendor, settings.attach.driver_roots, root)
    found = _beside(driver.path for driver in drivers if driver.own_mount)
    if found or root == "/":
        return found
    own = (f"{own_root.rstrip('/')}/{folder}/any" for folder in LIBRARY_FOLDERS)
    return _beside(own) or _beside(driver.path for driver in drivers)


def _beside(libraries: Iterable[str]) -> str:
    """Return the first NVML library that lies beside one of these, or ""."""
    candidates = (Path(path).parent / NVML_NAME for path in libraries)
    return next((str(path) for path in candidates if path.exists()), "")


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
