"""Links: what holds a program to a place. Closing the descriptor takes it off.

Nothing outlives the process: Linux closes its descriptors, so even SIGKILL
leaves no probe behind (every descriptor is close-on-exec as well).
"""

from __future__ import annotations

import errno
import logging
import os
import struct
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gpugauge.ebpf import syscalls
from gpugauge.ebpf.loader import Program
from gpugauge.ebpf.section import AttachType
from gpugauge.ebpf.syscalls import BpfCallError, Command
from gpugauge.errors import UnavailableError, UnsupportedError

LOG = logging.getLogger(__name__)

UPROBE_MULTI_RETURN = 1
MAX_SITES = 1 << 16

_PMU = Path("/sys/bus/event_source/devices/uprobe")


class Link:
    """One or more descriptors that hold a program to its sites."""

    def __init__(self, fds: Sequence[int], name: str, sites: int) -> None:
        self._fds = list(fds)
        self.name = name
        self.sites = sites
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it still holds."""
        return bool(self._fds)

    def close(self) -> None:
        """Take the program off. Waits until Linux is done, 30-90 ms; once, from any thread."""
        with self._lock:
            fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def _take(self) -> list[int]:
        with self._lock:
            fds, self._fds = self._fds, []
        return fds


def leave(links: Sequence[Link]) -> None:
    """Close links without waiting: for a process that is about to end.

    A child gets the descriptors and ends, so that Linux takes the probes off
    while it ends. Perf events come off one by one, 108 ms each, from however
    many threads they are closed: 8 s for a core set.
    """
    fds = [fd for each in links for fd in each._take()]
    try:
        for fd in fds:
            os.set_inheritable(fd, True)
        command = [sys.executable, "-I", "-S", "-c", ""]
        os.posix_spawn(command[0], command, {}, setsid=True)
    except OSError:
        LOG.warning("no child could be started to close %d links: this takes a while", len(fds))
    for fd in fds:
        os.close(fd)


def attach_multi(
    program: Program, path: str, offsets: Sequence[int], cookies: Sequence[int], *, returns: bool
) -> Link:
    """Attach a program to many sites of one file, in every process that maps it.

    One call of Linux 6.6 or newer. A program of section `uprobe.session`
    gets both entry and return (6.13); `returns` must be false for it.

    Args:
        program: Loaded from `uprobe.multi`, `uretprobe.multi` or `uprobe.session`.
        path: The file. It is opened once; the link holds its mount.
        offsets: Where in the file.
        cookies: One for each.
        returns: Attach to the return of the function that begins at the site.

    Raises:
        UnavailableError: No such file, or a site that lies outside its code.
        UnsupportedError: This Linux, or these privileges, cannot do it.
    """
    count = len(offsets)
    if count != len(cookies) or not 0 < count <= MAX_SITES:
        raise ValueError(f"{count} offsets with {len(cookies)} cookies")
    name = os.fsencode(path)
    path_buffer = syscalls.buffer_of(name + b"\0")
    offset_buffer = syscalls.buffer_of(struct.pack(f"<{count}Q", *offsets))
    cookie_buffer = syscalls.buffer_of(struct.pack(f"<{count}Q", *cookies))
    attribute = syscalls.pack(
        "IIIIQQQQIII",
        program.fd,
        0,
        program.kind.expected_attach_type,
        0,
        syscalls.address(path_buffer),
        syscalls.address(offset_buffer),
        0,
        syscalls.address(cookie_buffer),
        count,
        UPROBE_MULTI_RETURN if returns else 0,
        0,
    )
    try:
        fd = _uninterrupted(attribute)
    except BpfCallError as error:
        raise _attach_error(program.name, path, error) from None
    return Link([fd], f"{program.name}@{path}", count)


def attach_perf(program: Program, path: str, offset: int, cookie: int, *, returns: bool) -> Link:
    """Attach a program to one site through a perf event: Linux 5.15 or newer.

    Needs the capability SYS_ADMIN. Taking it off takes about 108 ms.

    Args:
        program: Loaded from `uprobe` or `uretprobe`.
        path: The file.
        offset: Where in it.
        cookie: Given to the program.
        returns: Attach to the return.

    Raises:
        UnavailableError: No such file, or a site outside its code.
        UnsupportedError: This Linux, or these privileges, cannot do it.
    """
    kind, return_bit = _pmu()
    path_buffer = syscalls.buffer_of(os.fsencode(path) + b"\0")
    # struct perf_event_attr, 112 bytes: config1 is the path, config2 the offset.
    event = bytearray(112)
    struct.pack_into("<IIQQQ", event, 0, kind, len(event), returns << return_bit, 1, 0)
    struct.pack_into("<QQ", event, 56, syscalls.address(path_buffer), offset)
    try:
        event_fd = syscalls.perf_event_open(bytes(event), -1, 0)
    except BpfCallError as error:
        raise _attach_error(program.name, path, error) from None
    try:
        link = syscalls.pack("IIIIQ", program.fd, event_fd, AttachType.PERF_EVENT, 0, cookie)
        link_fd = _uninterrupted(link)
    except OSError as error:
        os.close(event_fd)
        raise _attach_error(program.name, path, error) from None
    return Link([link_fd, event_fd], f"{program.name}@{path}+{offset:#x}", 1)


def attach_raw_tracepoint(program: Program, tracepoint: str = "") -> Link:
    """Attach a program to a raw tracepoint, by default the one its section names.

    Raises:
        UnsupportedError: Linux has no such tracepoint, or refuses.
    """
    name = tracepoint or program.kind.target
    buffer = syscalls.buffer_of(name.encode() + b"\0")
    try:
        fd = syscalls.bpf(
            Command.RAW_TRACEPOINT_OPEN,
            syscalls.pack("QIxxxx", syscalls.address(buffer), program.fd),
        )
    except BpfCallError as error:
        raise UnsupportedError(
            f"The BPF program {program.name} could not be attached to the tracepoint {name}: "
            f"{syscalls.errno_text(error)}."
        ) from None
    return Link([fd], f"{program.name}@{name}", 1)


def _uninterrupted(attribute: bytes) -> int:
    """A signal may end the call before it did anything; then it is made again."""
    for _ in range(16):
        try:
            return syscalls.bpf(Command.LINK_CREATE, attribute)
        except BpfCallError as error:
            if error.errno not in (errno.EINTR, errno.EAGAIN):
                raise
            last = error
    raise last


@cache
def _pmu() -> tuple[int, int]:
    """Return the type number of uprobe perf events and the bit that says "return"."""
    try:
        kind = int((_PMU / "type").read_text(encoding="ascii"))
        bit = (_PMU / "format" / "retprobe").read_text(encoding="ascii").strip()
    except OSError as error:
        raise UnsupportedError(
            f"This Linux has no uprobe events in perf: {syscalls.errno_text(error)}."
        ) from None
    return kind, int(bit.removeprefix("config:"))


def _attach_error(program: str, path: str, error: OSError) -> UnsupportedError | UnavailableError:
    sentence = (
        f"The BPF program {program} could not be attached to {path}: {syscalls.errno_text(error)}."
    )
    if error.errno in (errno.ENOENT, errno.EBADF, errno.ENOTDIR, errno.EACCES):
        return UnavailableError(sentence)
    if error.errno == errno.EPERM:
        return UnsupportedError(
            sentence, "Run as root, or with BPF and PERFMON (SYS_ADMIN in perf mode)."
        )
    return UnsupportedError(sentence)
