"""A program on the driver whose steps change while it runs: {"name": value} a line on stdin.

Usage: python -m sim.workloads.changing name=value ...; it prints its pid when it works. The
live incidents and the demo's are made of it. Its functions have the names that a person
would look for: `load_batch`, `log_tensor`.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time

from sim.workloads.driver import Driver, byref, c_uint64

PARAMETERS: dict[str, float] = {
    "device": 0,
    "launches": 40,
    "launch_us": 500,
    "rest_ms": 2,  # of the host, without CPU
    "cpu_ms": 0,  # of the host, on a CPU
    "reads": 0,
    "read_bytes": 65536,
    "pageable": 0,
    "batch_bytes": 65536,
    "drain": 1,
    "allocations": 0,
    "blocks": 0,  # of 1 MiB, held from the start
    "pause": 0,
    "hang": 0,
    "set": 0,  # calls that the test lets fail
    "huge": 0,  # an allocation that is larger than the device
    "stop": 0,
}


def listen(now: dict[str, float]) -> None:
    """Take changes from standard input."""
    for line in sys.stdin:
        now.update(json.loads(line))


def load_batch(cpu_ms: float, rest_ms: float) -> None:
    """Work of the host before a step."""
    end = time.thread_time() + cpu_ms / 1e3
    while time.thread_time() < end:
        pass
    time.sleep(rest_ms / 1e3)


def log_tensor(driver: Driver, host: object, device: c_uint64, size: int) -> None:
    """Read a value back, as a log line does: the call itself is here, as in a C extension."""
    driver.library.cuMemcpyDtoHAsync_v2(host, device, ctypes.c_size_t(size), None)
    driver.library.cuStreamSynchronize(None)


def main() -> None:
    """Run steps until told to stop, or killed."""
    now = dict(PARAMETERS)
    for pair in sys.argv[1:]:
        name, _, value = pair.partition("=")
        now[name] = float(value)
    threading.Thread(target=listen, args=(now,), daemon=True).start()
    driver = Driver(int(now["device"]))
    functions = {}
    device = driver.allocate(64 << 20)
    for _ in range(int(now["blocks"])):
        driver.allocate(1 << 20)
    pageable, pinned = ctypes.create_string_buffer(64 << 20), driver.pinned(4 << 20)
    print(os.getpid(), flush=True)
    while not now["stop"]:
        if now["pause"]:
            time.sleep(0.02)
            continue
        microseconds = int(now["launch_us"])
        if microseconds not in functions:
            functions[microseconds] = driver.function(f"busy_{microseconds}us")
        load_batch(now["cpu_ms"], now["rest_ms"])
        source = pageable if now["pageable"] else pinned
        driver.to_device(device, source, int(now["batch_bytes"]))
        for index in range(int(now["launches"])):
            driver.launch(functions[microseconds], grid=(7, 1, 1), block=(256, 1, 1))
            if index < now["reads"]:
                log_tensor(driver, pageable, device, int(now["read_bytes"]))
        for _ in range(int(now["allocations"])):
            driver.call("cuMemFree_v2", c_uint64(driver.allocate(1 << 20).value))
        if now["set"]:  # a call that the test lets fail
            driver.attempt("cuMemsetD8Async", device, ctypes.c_ubyte(0), ctypes.c_size_t(64), None)
        if now["huge"]:
            driver.attempt("cuMemAlloc_v2", byref(c_uint64()), ctypes.c_size_t(1 << 40))
            now["huge"] = 0
        if now["hang"]:  # a call that the test does not let return
            driver.drain()
        if now["drain"]:
            driver.synchronize()


if __name__ == "__main__":
    main()
