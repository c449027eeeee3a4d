"""Trials: the smallest thing that shows whether Linux offers something. Leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator

from gpugauge.ebpf import kfunc, syscalls
from gpugauge.ebpf.links import attach_multi, attach_perf, attach_raw_tracepoint
from gpugauge.ebpf.loader import Program
from gpugauge.ebpf.section import kind_of
from gpugauge.ebpf.syscalls import BpfCallError, Command
from gpugauge.errors import GpugaugeError

_MAP_HASH = 1
_MAP_RING = 27
_BASE_PAGE = 4096


def instruction(
    code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0
) -> bytes:
    """Return one BPF instruction."""
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


_RETURN_0 = instruction(0xB7) + instruction(0x95)  # r0 = 0; exit
_COOKIE = instruction(0x85, value=174) + instruction(0x95)  # bpf_get_attach_cookie(ctx); exit
_EXCHANGE = (
    instruction(0xB7)  # r0 = 0
    + instruction(0x7B, target=10, source=0, offset=-8)  # *(u64 *)(r10 - 8) = r0
    + instruction(0xB7, target=1, value=1)  # r1 = 1
    + instruction(0xDB, target=10, source=1, offset=-8, value=0xF1)  # r0 = cmpxchg_64(...)
    + instruction(0x95)
)


@contextlib.contextmanager
def program(section: str, instructions: bytes = _RETURN_0) -> Iterator[Program]:
    """Load a program for a while.

    Raises:
        BpfCallError: Linux refuses it.
    """
    kind = kind_of(section)
    code = syscalls.buffer_of(instructions)
    license_text = syscalls.buffer_of(b"GPL\0")
    attribute = syscalls.pack(
        "IIQQIIQII16sII",
        kind.program_type,
        len(instructions) // 8,
        syscalls.address(code),
        syscalls.address(license_text),
        0,
        0,
        0,
        0,
        0,
        b"trial",
        0,
        kind.expected_attach_type,
    )
    loaded = Program("trial", syscalls.bpf(Command.PROGRAM_LOAD, attribute), kind)
    try:
        yield loaded
    finally:
        loaded.close()


@contextlib.contextmanager
def code_file(content: bytes = b"\x55\x5d\xc3") -> Iterator[tuple[int, str]]:
    """Make a file without a name, never executed by itself; yield its descriptor and path."""
    fd = os.memfd_create("gpugauge-trial", os.MFD_CLOEXEC)
    try:
        os.write(fd, content.ljust(_BASE_PAGE, b"\xcc"))
        yield fd, f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def load() -> None:
    """Load a program that does nothing."""
    with program("uprobe"):
        pass


def cookie() -> None:
    """Load a program that asks for its cookie."""
    with program("uprobe", _COOKIE):
        pass


def exchange() -> None:
    """Load a program that compares and swaps."""
    with program("uprobe", _EXCHANGE):
        pass


def multi() -> None:
    """Attach by uprobe_multi."""
    with program("uprobe.multi") as loaded, code_file() as (_, path):
        attach_multi(loaded, path, [0], [0], returns=False).close()


def session() -> None:
    """Attach as a session, and find the function that tells return from entry."""
    with program("uprobe.session") as loaded, code_file() as (_, path):
        attach_multi(loaded, path, [0], [0], returns=False).close()
    if not kfunc.ids(("bpf_session_is_return",)):
        raise BpfCallError(errno.ENOENT, "its BTF has no bpf_session_is_return")


def perf() -> None:
    """Attach by a perf event."""
    with program("uprobe") as loaded, code_file() as (_, path):
        attach_perf(loaded, path, 0, 0, returns=False).close()


def raw_tracepoint() -> None:
    """Attach to the end of tasks."""
    with program("raw_tp/sched_process_exit") as loaded:
        attach_raw_tracepoint(loaded).close()


def ring() -> None:
    """Make a ring buffer."""
    size = os.sysconf("SC_PAGESIZE")
    os.close(syscalls.bpf(Command.MAP_CREATE, syscalls.pack("IIII", _MAP_RING, 0, 0, size)))


def batch() -> None:
    """Read an empty hash in one batch: "no more keys" is the right answer."""
    fd = syscalls.bpf(Command.MAP_CREATE, syscalls.pack("IIII", _MAP_HASH, 4, 4, 1))
    keys, values, place = (syscalls.buffer_of(bytes(8)) for _ in range(3))
    try:
        attribute = syscalls.pack(
            "QQQQIIQQ",
            0,
            syscalls.address(place),
            syscalls.address(keys),
            syscalls.address(values),
            1,
            fd,
            0,
            0,
        )
        syscalls.bpf(Command.MAP_LOOKUP_BATCH, attribute)
    except BpfCallError as error:
        if error.errno != errno.ENOENT:
            raise
    finally:
        os.close(fd)


def types() -> None:
    """Read the BTF of Linux."""
    with kfunc.LINUX_BTF.open("rb") as file:
        file.read(1)


def host_pids() -> None:
    """See processes by the same ids as Linux does: the first pid namespace."""
    first = 0xEFFFFFFC  # PROC_PID_INIT_INO
    if os.stat("/proc/self/ns/pid").st_ino != first:  # noqa: PTH116
        raise BpfCallError(errno.ENOENT, "in a pid namespace of its own")


Refusal = (OSError, GpugaugeError)
"""What a trial raises when Linux does not offer the thing."""
