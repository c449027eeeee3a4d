"""A loop that never synchronizes: the launch queue fills and launches block.

Usage: python -m sim.workloads.saturate --launches N --launch-us US [--threads T]
"""

from __future__ import annotations

import threading
import time

from sim.workloads.driver import Driver, launch_arguments, options


def main() -> None:
    """Launch without end, from each thread on a stream of its own."""
    given = options(__doc__, launches=3001, launch_us=200, threads=1)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    streams = [driver.stream() for _ in range(given.threads)]

    def run(index: int) -> None:
        driver.library.cuCtxSetCurrent(driver.context)
        arguments = launch_arguments(function, streams[index])
        launch, failed = driver.library.cuLaunchKernel, 0
        for _ in range(given.launches):
            failed |= launch(*arguments)
        codes.append(failed)

    codes: list[int] = []
    begin = time.monotonic_ns()
    workers = [threading.Thread(target=run, args=(index,)) for index in range(given.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wall_ns = time.monotonic_ns() - begin
    if any(codes):
        raise SystemExit(f"cuLaunchKernel answered {codes}")
    driver.counts["cuCtxSetCurrent"] += given.threads
    driver.counts["cuLaunchKernel"] = given.threads * given.launches
    driver.drain()
    driver.report(wall_ns=wall_ns)


if __name__ == "__main__":
    main()
