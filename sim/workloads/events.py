"""Event waits: polls, cuEventSynchronize, and one stream that waits for another.

Usage: python -m sim.workloads.events --rounds N
"""

from __future__ import annotations

from ctypes import c_float

from sim.workloads.driver import Driver, DriverError, byref, options

NOT_READY = 600


def main() -> None:
    """Run the rounds."""
    given = options(__doc__, rounds=13, launch_us=400)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    first, second = driver.stream(), driver.stream()
    start, end = driver.event(), driver.event()
    polls_not_ready, least_ms = 0, float("inf")
    for _ in range(given.rounds):
        driver.call("cuEventRecord", start, first)
        driver.launch(function, first)
        driver.call("cuEventRecord", end, first)
        driver.call("cuStreamWaitEvent", second, end, 0)
        driver.launch(function, second)
        while code := driver.attempt("cuEventQuery", end):
            if code != NOT_READY:
                raise DriverError(f"cuEventQuery answered {code}")
            polls_not_ready += 1
        driver.call("cuEventSynchronize", end)
        elapsed_ms = c_float()
        driver.call("cuEventElapsedTime", byref(elapsed_ms), start, end)
        least_ms = min(least_ms, elapsed_ms.value)
        driver.synchronize(second)
    driver.report(polls_not_ready=polls_not_ready, least_ms=least_ms)


if __name__ == "__main__":
    main()
