"""The allocator of the C library gives back what large buffers and threads took."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from gpugauge.ebpf.allocator import keep_small
if sys.argv[1] == "small":
    assert keep_small()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
all_here = threading.Barrier(7)
def take():
    libc.malloc(997)
    all_here.wait()
threads = [threading.Thread(target=take) for _ in range(7)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.parametrize(("how", "one"), [("small", True), ("default", False)])
def test_threads_share_one_heap(how: str, one: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
    )
    heaps = re.findall(r'<heap nr="\d+">', done.stdout)
    assert (len(heaps) == 1) == one, heaps
