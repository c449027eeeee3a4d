"""A job of several processes that go in step: `ranks.py device=0 ranks=4`.

Each has a device. A step ends in a collective operation: work in the stream that is done
when all ranks have come to it, so that those that came early wait in a synchronization.
{"slow": milliseconds} on stdin makes the first rank late.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from ctypes import CFUNCTYPE, c_double, c_void_p
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier

from sim.workloads.driver import Driver

LAUNCHES = 20


def rank(number: int, device: int, barrier: Barrier, slow_ms: Synchronized[float]) -> None:
    """Run the steps of one rank."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    driver = Driver(device)
    function = driver.function("busy_200us")
    stream = driver.stream()
    meet = CFUNCTYPE(None, c_void_p)(lambda _: barrier.wait() and None)
    while True:
        if number == 0:
            time.sleep(slow_ms.value / 1e3)
        for _ in range(LAUNCHES):
            driver.launch(function, stream, grid=(7, 1, 1), block=(256, 1, 1))
        driver.call("cuLaunchHostFunc", stream, meet, c_void_p(0))
        driver.synchronize(stream)


def main() -> None:
    """Start the ranks, print their pids, and take changes from standard input."""
    now = {"device": 0.0, "ranks": 4.0}
    for pair in sys.argv[1:]:
        name, _, value = pair.partition("=")
        now[name] = float(value)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(int(now["ranks"]))
    slow_ms = context.Value(c_double, 0.0)
    children = [
        context.Process(target=rank, args=(n, int(now["device"]) + n, barrier, slow_ms))
        for n in range(int(now["ranks"]))
    ]
    for child in children:
        child.daemon = True
        child.start()
    print(*(child.pid for child in children), flush=True)  # noqa: T201 - the test reads it
    for line in sys.stdin:
        slow_ms.value = float(json.loads(line)["slow"])
    for child in children:
        child.kill()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
