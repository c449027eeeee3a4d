"""Two streams of one thread, with pinned copies on one and launches on the other.

Usage: python -m sim.workloads.streams --steps N
"""

from __future__ import annotations

from sim.workloads.driver import Driver, options


def main() -> None:
    """Feed both streams, wait for each."""
    given = options(__doc__, steps=17, launch_us=80, batch_bytes=131101)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    work, copies = driver.stream(), driver.stream()
    device, host = driver.allocate(given.batch_bytes), driver.pinned(given.batch_bytes)
    for _ in range(given.steps):
        driver.launch(function, work)
        driver.to_device(device, host, given.batch_bytes, copies)
        driver.launch(function, work)
        driver.synchronize(copies)
        driver.synchronize(work)
    driver.report(steps=given.steps)


if __name__ == "__main__":
    main()
