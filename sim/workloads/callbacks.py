"""Host callbacks in stream order.

Usage: python -m sim.workloads.callbacks --rounds N
"""

from __future__ import annotations

import time
from ctypes import CFUNCTYPE, c_int, c_void_p

from sim.workloads.driver import Driver, options


def main() -> None:
    """Launch, call back, launch."""
    given = options(__doc__, rounds=7, launch_us=300, host_us=1000)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    stream = driver.stream()
    seen: list[int] = []

    def run_host(data: int | None) -> None:
        time.sleep(given.host_us / 1e6)
        seen.append(data or 0)

    def run_callback(_stream: int, status: int, data: int | None) -> None:
        seen.append((data or 0) if status == 0 else -1)

    host = CFUNCTYPE(None, c_void_p)(run_host)
    callback = CFUNCTYPE(None, c_void_p, c_int, c_void_p)(run_callback)
    for number in range(given.rounds):
        driver.launch(function, stream)
        driver.call("cuLaunchHostFunc", stream, host, c_void_p(2 * number))
        driver.call("cuStreamAddCallback", stream, callback, c_void_p(2 * number + 1), 0)
        driver.launch(function, stream)
    driver.synchronize(stream)
    driver.report(in_order=seen == list(range(2 * given.rounds)))


if __name__ == "__main__":
    main()
