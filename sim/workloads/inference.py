"""An inference service: a request comes, a few launches, the answer copied back as .cpu() does.

Usage: python -m sim.workloads.inference --requests N
"""

from __future__ import annotations

import ctypes
import time

from sim.workloads.driver import Driver, options


def main() -> None:
    """Serve the requests."""
    given = options(
        __doc__, requests=29, launches=5, launch_us=100, answer_bytes=65539, think_us=2000
    )
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    device = driver.allocate(given.answer_bytes)
    pageable = ctypes.create_string_buffer(given.answer_bytes)
    begin = time.monotonic_ns()
    for _ in range(given.requests):
        driver.to_device(device, pageable, 4096)
        for _ in range(given.launches):
            driver.launch(function)
        driver.to_host(pageable, device, given.answer_bytes)  # waits inside: pageable memory
        driver.synchronize()
        time.sleep(given.think_us / 1e6)
    driver.report(requests=given.requests, wall_ns=time.monotonic_ns() - begin)


if __name__ == "__main__":
    main()
