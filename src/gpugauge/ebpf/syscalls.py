"""bpf(2) and perf_event_open(2) by ctypes: numbers, attributes, errors.

Numbers are part of the Linux user API (include/uapi/linux/bpf.h). Every
descriptor bpf(2) returns is close-on-exec by itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from enum import IntEnum

ATTRIBUTE_BYTES = 160
"""Room for the largest attribute used here; Linux wants zeros in what it does not know."""


class Command(IntEnum):
    """enum bpf_cmd."""

    MAP_CREATE = 0
    MAP_LOOKUP = 1
    MAP_UPDATE = 2
    MAP_DELETE = 3
    MAP_GET_NEXT_KEY = 4
    PROGRAM_LOAD = 5
    PROGRAM_TEST_RUN = 10
    PROGRAM_GET_NEXT_ID = 11
    MAP_GET_NEXT_ID = 12
    PROGRAM_GET_FD_BY_ID = 13
    OBJECT_INFO = 15
    RAW_TRACEPOINT_OPEN = 17
    BTF_LOAD = 18
    MAP_FREEZE = 22
    MAP_LOOKUP_BATCH = 24
    MAP_DELETE_BATCH = 27
    LINK_CREATE = 28
    LINK_GET_NEXT_ID = 31


_NUMBERS = {"x86_64": (321, 298), "aarch64": (280, 241)}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class BpfCallError(OSError):
    """A bpf(2) or perf_event_open(2) call that failed; `errno` says how."""


def system_call(number: int, *arguments: int) -> int:
    """Make a system call of integers (or addresses) and return its result.

    Raises:
        BpfCallError: The call failed.
    """
    result = _libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise BpfCallError(code, os.strerror(code))
    return int(result)


def _numbers() -> tuple[int, int]:
    found = _NUMBERS.get(platform.machine())
    if found is None:
        raise BpfCallError(errno.ENOSYS, f"bpf(2) on {platform.machine()} is not known here")
    return found


def bpf(command: Command, attribute: bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Make one call of bpf.

    Args:
        command: What to do.
        attribute: union bpf_attr, as long as its last member in use. A ctypes
            array is passed as it is, so that members Linux writes can be read back.

    Raises:
        BpfCallError: The call failed.
    """
    if isinstance(attribute, bytes):
        attribute = ctypes.create_string_buffer(attribute, len(attribute))
    return system_call(
        _numbers()[0], int(command), ctypes.addressof(attribute), ctypes.sizeof(attribute)
    )


def perf_event_open(attribute: bytes, pid: int, cpu: int) -> int:
    """Open a perf event and return its descriptor, close-on-exec.

    Raises:
        BpfCallError: The call failed.
    """
    close_on_exec = 8
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    return system_call(_numbers()[1], ctypes.addressof(buffer), pid, cpu, -1, close_on_exec)


def address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    """Return the address of a buffer, as the 64-bit members of attributes want it."""
    return ctypes.addressof(buffer)


def buffer_of(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return a buffer that holds a copy of the bytes (at least one byte long)."""
    return ctypes.create_string_buffer(data, max(len(data), 1))


def pack(layout: str, *values: object) -> bytes:
    """Pack an attribute, little-endian, members at the offsets the format says."""
    return struct.pack("<" + layout, *values)


def errno_text(error: OSError) -> str:
    """Return an error of Linux in words, with its name: `Operation not permitted (EPERM)`."""
    code = error.errno or 0
    return f"{os.strerror(code)} ({errno.errorcode.get(code, code)})"
