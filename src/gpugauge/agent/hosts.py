"""The host's driver libraries, as the catalogue wants them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from gpugauge.discovery.decision import HostLibrary
from gpugauge.discovery.host import find_host_drivers, mapped_file_id
from gpugauge.errors import UnavailableError
from gpugauge.model.library import FileId
from gpugauge.settings import Settings
from gpugauge.vendors import Vendor

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


def nvml_library(settings: Settings, vendor: Vendor) -> str:
    """Return the NVML library beside the driver library, or "" for the loader's own search.

    The two are of one version; where the driver lies in a root of its own, the
    loader finds neither.
    """
    named = [os.path.realpath(path) for path in settings.attach.libraries]
    found = named or [
        driver.path
        for driver in find_host_drivers(vendor, settings.attach.driver_roots, host_root())
        if driver.own_mount
    ]
    for path in found:
        beside = Path(path).parent / NVML_NAME
        if beside.exists():
            return str(beside)
    return ""


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
