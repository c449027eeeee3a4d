"""A running container, seen from outside through /proc/PID: its /dev, libraries, shm, names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from gpugauge.attribution.cgroup import container_levels, controller_paths
from gpugauge.attribution.request_path import ENVIRONMENT, VALUE_LIMIT
from gpugauge.discovery.host import LIBRARY_FOLDERS, resolve
from gpugauge.discovery.maps import LibraryNames, read_mappings
from gpugauge.discovery.names import clean
from gpugauge.errors import GpugaugeError
from gpugauge.explain.evidence import ContainerSeen, DriverLibrary
from gpugauge.explain.gather.deadline import within
from gpugauge.explain.gather.driver_files import device_nodes
from gpugauge.explain.gather.places import Places, folder, read, text
from gpugauge.model.library import FileId
from gpugauge.vendors import CUDA

SECONDS = 2.0
PROCESSES_LIMIT = 64
SHM = "/dev/shm"  # noqa: S108 - a tenant's, only measured
ENVIRON_LIMIT_BYTES = 1 << 20
_COMPAT = re.compile(r"/compat(?:/|$)")
_NAMES = LibraryNames(CUDA.library_patterns)


def container_seen(
    name: str, pids: Collection[int], places: Places, host_files: Mapping[FileId, str]
) -> ContainerSeen:
    """Return what the node shows of one container.

    Args:
        name: Of the container.
        pids: Its processes; at least one.
        places: Where /proc is.
        host_files: Version of each of the host's driver libraries, by its file.

    Raises:
        UnavailableError: its files do not answer.
    """
    first = min(pids)
    base = f"{places.proc}/{first}"
    root = f"{base}/root"

    def look() -> ContainerSeen:
        # Links are followed inside the container: its /dev may point anywhere.
        dev = resolve(root, "/dev") or ""
        total, used = _shm(resolve(root, SHM), places)
        return ContainerSeen(
            name=name,
            pids=tuple(sorted(pids))[:PROCESSES_LIMIT],
            devices=device_nodes(dev),
            environment=environment(base),
            mapped=_mapped(sorted(pids)[:PROCESSES_LIMIT], places, host_files),
            libraries=_libraries(root),
            shm_total_bytes=total,
            shm_used_bytes=used,
            device_rules=_rules(base, places),
        )

    return within(SECONDS, look)


def environment(base: str) -> dict[str, str] | None:
    """Return the documented names of /proc/PID/environ; everything else is dropped at once."""
    try:
        data = read(f"{base}/environ", ENVIRON_LIMIT_BYTES)
    except GpugaugeError:
        return None
    found = {}
    for entry in data.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        decoded = name.decode("ascii", "replace")
        if separator and decoded in ENVIRONMENT:
            found[decoded] = clean(value, VALUE_LIMIT)
    return found


def _mapped(
    pids: list[int], places: Places, host_files: Mapping[FileId, str]
) -> tuple[DriverLibrary, ...] | None:
    found: dict[FileId, DriverLibrary] = {}
    readable = False
    for pid in pids:
        try:
            with open(f"{places.proc}/{pid}/maps", "rb") as file:  # noqa: PTH123
                mappings = read_mappings(file.read, _NAMES)
            readable = True
        except (OSError, GpugaugeError):
            continue
        for one in mappings:
            shown = clean(one.path, VALUE_LIMIT)
            version = host_files.get(one.file_id) or CUDA.library_version(
                one.path.rpartition("/")[2]
            )
            if _COMPAT.search(one.path):
                origin = "compat"
            elif one.file_id in host_files or not host_files:
                origin = "host" if one.file_id in host_files else "unknown"
            else:
                origin = "own"
            found.setdefault(one.file_id, DriverLibrary(shown, version, origin))
    return tuple(found.values()) if readable else None


def _libraries(root: str) -> tuple[str, ...] | None:
    """Return driver libraries in the usual folders of a container, links followed inside it."""
    found = []
    for path in LIBRARY_FOLDERS:
        real = resolve(root, path)
        for name in folder(real) or () if real else ():
            if CUDA.is_library(name) and resolve(root, f"{path}/{name}"):
                found.append(f"/{path}/{name}")
    return tuple(found[:16])


def _shm(path: str | None, places: Places) -> tuple[int | None, int | None]:
    if path is None:
        return None, None
    try:
        status = places.statvfs(path)
    except OSError:
        return None, None
    total = status.f_blocks * status.f_frsize
    return total, total - status.f_bfree * status.f_frsize


def _rules(base: str, places: Places) -> tuple[str, ...] | None:
    """Return the device rules of the container's cgroup: only v1 shows them."""
    path = controller_paths(text(f"{base}/cgroup", 16_384).encode()).get("devices", "")
    levels = container_levels(path)
    if not levels:
        return None
    rules = text(f"{places.cgroup}/devices{levels[0]}/devices.list", 65_536)
    return tuple(line.strip() for line in rules.split("\n") if line.strip()) if rules else None
