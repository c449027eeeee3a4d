"""The child that reads foreign files: everything that may hang or die, happens here.

A request comes on standard input, an answer leaves on standard output, both JSON.
The parent waits no longer than its deadline. Before the file's first byte is read
the child has given up root and every capability, and its memory, CPU time, files
and processes are limited. A file cut short while it is read kills the child
(SIGBUS) and nobody else. `no_new_privs` needs prctl(2), which Python does not
offer; the limit of no further process stands for it.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
import stat
import sys
from typing import Any

from gpugauge.codec.elf import Elf
from gpugauge.discovery import canary, mounts, sites
from gpugauge.discovery.maps import parse_line
from gpugauge.errors import GpugaugeError
from gpugauge.model.library import Site

ADDRESS_SPACE_BYTES = 256 * 1024 * 1024
CPU_SECONDS = 2
NOBODY = 65534
REQUEST_LIMIT_BYTES = 256 * 1024


class Refused(Exception):
    """The file is not read; the text says why."""


def main() -> None:
    """Answer one request and end."""
    try:
        _limit()
        answer = _answer(json.loads(sys.stdin.buffer.read(REQUEST_LIMIT_BYTES)))
    except Refused as refused:
        answer = {"refused": str(refused)}
    except GpugaugeError as error:
        answer = {"refused": error.sentence}
    except OSError as error:
        answer = {"refused": f"the file could not be read ({error.strerror or error})"}
    except MemoryError:
        answer = {"refused": "the file needs more memory than allowed"}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # no clean-up: it could touch the file again


def _limit() -> None:
    for limit, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, 16),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (most, most))


def _drop_privileges() -> bool:
    """Become nobody. False where the agent has no right to change the user."""
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except PermissionError:
        return False
    return True


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    descriptor = _open(request["path"], int(request["pid"]), request["device"])
    size = os.fstat(descriptor).st_size
    unprivileged = _drop_privileges()
    if not size:
        raise Refused("the file is empty")
    file_id = _file_id(descriptor)
    # Shared: Linux writes breakpoints into every private mapping that may become
    # executable, and the entries must be read as they are in the file.
    with mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as view:
        elf = Elf(view)
        found = sites.find_sites(
            elf,
            request["functions"],
            re.compile(request["watched"]) if request["watched"] else None,
            request["canaries"],
            frozenset(request["known"]),
        )
    probed = found.canary is not None and canary.is_probed(descriptor, found.canary.file_offset)
    return {
        "file_id": file_id,
        "size_bytes": size,
        "unprivileged": unprivileged,
        "sites": [_row(site) for site in found.sites],
        "canary": _row(found.canary) if found.canary else None,
        "probed": probed,
        "exported": found.exported,
        "unknown": found.unknown_symbols,
        "build_id": found.build_id,
        "simulated": found.simulated,
    }


def _row(site: Site) -> list[Any]:
    return [site.symbol, site.file_offset, site.kind.value, site.reason]


def _open(path: str, pid: int, device: list[int] | None) -> int:
    """Open a file, once it is known to be regular and on a local file system.

    O_PATH opens no file: the type of the file system is known before it is asked.
    """
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    number = mounts.parse_mount_number(_read(f"/proc/self/fdinfo/{handle}"))
    # Those of the first process too: a chroot hides the mount that it lies on itself.
    visible = _mounts("self") + (_mounts(str(pid)) if pid else ()) + _mounts("1")
    kind = mounts.file_system(visible, number, (device[0], device[1]) if device else None)
    if kind is None:
        raise Refused("its mount is not visible, so the type of its file system is not known")
    if kind not in mounts.FILE_SYSTEMS:
        raise Refused(f"it lies on a {kind} file system, which may not answer")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Refused("it is not a regular file")
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    return os.open(f"/proc/self/fd/{handle}", flags)


def _mounts(pid: str) -> tuple[mounts.Mount, ...]:
    try:
        return mounts.parse_mountinfo(_read(f"/proc/{pid}/mountinfo"))
    except OSError:
        return ()


def _read(path: str) -> bytes:
    """A file of /proc, which gives a page at a time."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = bytearray()
        while len(text) < mounts.MOUNTINFO_LIMIT_BYTES:
            chunk = os.read(descriptor, 65536)
            if not chunk:
                break
            text += chunk
        return bytes(text)
    finally:
        os.close(descriptor)


def _file_id(descriptor: int) -> list[int]:
    """Device and inode as Linux shows them in /proc/PID/maps.

    fstat(2) gives others on btrfs and on overlay: so the file is mapped, and looked up.
    """
    before = set(_own_maps())
    with mmap.mmap(descriptor, 1, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ):
        new = [line for line in _own_maps() if line not in before]
    for line in new:
        mapping = parse_line(line, executable=False)
        if mapping is not None:
            file_id = mapping.file_id
            return [file_id.device_major, file_id.device_minor, file_id.inode]
    raise Refused("it was mapped, and does not show in the maps")


def _own_maps() -> list[bytes]:
    return _read("/proc/self/maps").split(b"\n")
