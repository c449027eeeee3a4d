"""The driver API for the workloads: ctypes on the library that GPUGAUGE_SIM_LIBRARY names."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
from collections import Counter
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

STACK_ZERO = c_void_p(None)


def launch_arguments(
    function: c_void_p,
    stream: c_void_p,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
) -> tuple[Any, ...]:
    """Return the arguments of cuLaunchKernel: made once, a loop can launch every few us."""
    shape = [c_uint(size) for size in (*grid, *block, 0)]
    return (function, *shape, stream, STACK_ZERO, STACK_ZERO)


def busy_ptx(name: str) -> bytes:
    """Return PTX for a real driver: an entry that spins as long as its name says, busy_<n>us."""
    match = re.fullmatch(r"busy_(\d+)us", name)
    nanoseconds = int(match[1]) * 1000 if match else 0
    return (
        f""".version 7.0
.target sm_70
.address_size 64
.visible .entry {name}()
{{
  .reg .b64 %rd<4>;
  .reg .pred %p<2>;
  mov.u64 %rd1, %globaltimer;
again:
  mov.u64 %rd2, %globaltimer;
  sub.u64 %rd3, %rd2, %rd1;
  setp.lt.u64 %p1, %rd3, {nanoseconds};
  @%p1 bra again;
  ret;
}}
""".encode()
        + b"\0"
    )


class DriverError(RuntimeError):
    """A driver call did not answer CUDA_SUCCESS."""


class Driver:
    """Calls by name, each counted by this program itself, and every answer checked."""

    def __init__(self, ordinal: int = 0, *, primary: bool = True) -> None:
        path = os.environ.get("GPUGAUGE_SIM_LIBRARY", "libcuda.so.1")  # else the real one
        self.library = ctypes.CDLL(path)
        self.simulated = hasattr(self.library, "gpugauge_simulated_driver")
        self.counts: Counter[str] = Counter()
        self.ordinal = ordinal
        self.call("cuInit", 0)
        self.context = c_void_p()
        if primary:
            self.call("cuDevicePrimaryCtxRetain", byref(self.context), ordinal)
            self.call("cuCtxSetCurrent", self.context)
        else:
            self.call("cuCtxCreate_v2", byref(self.context), 0, ordinal)

    def attempt(self, name: str, *arguments: Any) -> int:
        """Call a function and return its CUresult."""
        code = int(getattr(self.library, name)(*arguments))
        self.counts[name] += 1
        return code

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed.

        Raises:
            DriverError: it answered anything else.
        """
        code = self.attempt(name, *arguments)
        if code:
            raise DriverError(f"{name} answered {code}")

    def function(self, name: str) -> c_void_p:
        """Return a launchable function; busy_<n>us tells how long it runs."""
        module, function = c_void_p(), c_void_p()
        image = b"simulated\0" if self.simulated else busy_ptx(name)
        self.call("cuModuleLoadData", byref(module), c_char_p(image))
        self.call("cuModuleGetFunction", byref(function), module, c_char_p(name.encode()))
        return function

    def launch(
        self,
        function: c_void_p,
        stream: c_void_p = STACK_ZERO,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        block: tuple[int, int, int] = (32, 1, 1),
        name: str = "cuLaunchKernel",
    ) -> None:
        """Launch a function on a stream."""
        self.call(name, *launch_arguments(function, stream, grid, block))

    def stream(self, flags: int = 1) -> c_void_p:
        """Return a new stream, by default one that does not wait for the legacy stream."""
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), c_uint(flags))
        return stream

    def event(self) -> c_void_p:
        """Return a new event."""
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(0))
        return event

    def allocate(self, size_bytes: int) -> c_uint64:
        """Return the address of device memory."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size_bytes))
        return pointer

    def pinned(self, size_bytes: int) -> c_void_p:
        """Return the address of pinned host memory."""
        pointer = c_void_p()
        self.call("cuMemAllocHost_v2", byref(pointer), c_size_t(size_bytes))
        return pointer

    def to_device(
        self, target: c_uint64, source: Any, size_bytes: int, stream: c_void_p = STACK_ZERO
    ) -> None:
        """Copy to the device, asynchronously."""
        self.call("cuMemcpyHtoDAsync_v2", target, source, c_size_t(size_bytes), stream)

    def to_host(
        self, target: Any, source: c_uint64, size_bytes: int, stream: c_void_p = STACK_ZERO
    ) -> None:
        """Copy to the host, asynchronously."""
        self.call("cuMemcpyDtoHAsync_v2", target, source, c_size_t(size_bytes), stream)

    def synchronize(self, stream: c_void_p = STACK_ZERO) -> None:
        """Wait for a stream."""
        self.call("cuStreamSynchronize", stream)

    def drain(self) -> None:
        """Wait for the context, as CUDA 13's runtime does."""
        self.call("cuCtxSynchronize_v2", self.context)

    def use(self) -> None:
        """Make the context current in the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def report(self, **more: Any) -> None:
        """Print what this program itself counted, as one line of JSON."""
        line = {"pid": os.getpid(), "simulated": self.simulated, "counts": dict(self.counts)}
        print(json.dumps(line | more), flush=True)


def options(description: str | None, **numbers: int) -> argparse.Namespace:
    """Parse flags of whole numbers: --name N, with the defaults given."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", type=int, default=0, help="CUDA ordinal")
    for name, value in numbers.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=int, default=value, help=f"default {value}")
    return parser.parse_args()


__all__ = [
    "Driver",
    "DriverError",
    "byref",
    "c_int",
    "c_uint64",
    "c_void_p",
    "launch_arguments",
    "options",
]
