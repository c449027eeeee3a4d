"""The child of the proof: maps the code it is given, and calls it when told to.

Run as a file of its own by an isolated Python, so it imports nothing of this
package. Arguments: descriptor of the code, offset of the caller, `plain` or `strict`.
Under `strict` a seccomp filter kills the process at the first system call that
is not in a list of the most common ones: a return probe that enters Linux by a
system call of its own (Linux 6.11) is seen by its death, as in containers
whose profile does not know that call.
Each line of input, `OFFSET COUNT`, is answered by `WRONG NANOSECONDS`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

# System calls of x86-64: what reading, writing, memory, signals and threads of Python need.
ALLOWED = (0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 28, 39, 56, 60, 131, 186)
ALLOWED_MORE = (202, 228, 230, 231, 234, 273, 318)
X86_64 = 0xC000003E
KILL_PROCESS = 0x80000000
ALLOW = 0x7FFF0000

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_CODE_BYTES = 4096


def filter_program() -> bytes:
    """Return the seccomp filter as classic BPF."""
    numbers = ALLOWED + ALLOWED_MORE
    rows = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 1, 0, X86_64),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, 0),  # the number
    ]
    for index, number in enumerate(numbers):
        rows.append((_EQUAL, len(numbers) - index, 0, number))
    rows += [(_RETURN, 0, 0, KILL_PROCESS), (_RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("<HBBI", *row) for row in rows)


def confine() -> None:
    """Put this process under the filter for the rest of its life."""
    libc = ctypes.CDLL(None, use_errno=True)
    rows = filter_program()
    buffer = ctypes.create_string_buffer(rows, len(rows))
    program = struct.pack("<HxxxxxxQ", len(rows) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(program, len(program))
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(
        seccomp, by_filter, ctypes.c_void_p(ctypes.addressof(holder)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


def main() -> None:
    """Answer until the input ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    read_execute, private = 5, 2
    base = libc.mmap(None, _CODE_BYTES, read_execute, private, int(sys.argv[1]), 0)
    if base in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "the code cannot be mapped to be executed")
    call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_long)(base + int(sys.argv[2]))
    call(base, 1)  # what ctypes sets up at its first call is set up before the filter
    if sys.argv[3] == "strict":
        confine()
    os.write(1, b"ready\n")
    while True:
        line = os.read(0, 64)
        if not line:
            os._exit(0)
        offset, count = line.split()
        began = time.perf_counter_ns()
        wrong = call(base + int(offset), int(count))
        took = time.perf_counter_ns() - began
        os.write(1, b"%d %d\n" % (wrong, took))


if __name__ == "__main__":
    main()
