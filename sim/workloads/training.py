"""A training loop: batch to the device, forward and backward launches, loss back, sleep.

Usage: python -m sim.workloads.training --steps N
"""

from __future__ import annotations

import time

from sim.workloads.driver import Driver, options


def main() -> None:
    """Run the loop."""
    given = options(
        __doc__, steps=23, launches=13, launch_us=50, batch_bytes=65537, stall_us=0, pinned=1
    )
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    device = driver.allocate(given.batch_bytes)
    host = driver.pinned(given.batch_bytes)
    loss = driver.pinned(4)
    stream = driver.stream()
    begin = time.monotonic_ns()
    for _ in range(given.steps):
        driver.to_device(device, host, given.batch_bytes, stream)
        for _ in range(given.launches):
            driver.launch(function, stream, grid=(7, 1, 1), block=(128, 1, 1))
        driver.to_host(loss, device, 4, stream)
        driver.synchronize(stream)
        time.sleep(given.stall_us / 1e6)
    wall_ns = time.monotonic_ns() - begin
    driver.drain()
    driver.report(steps=given.steps, wall_ns=wall_ns)


if __name__ == "__main__":
    main()
