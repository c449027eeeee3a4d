"""Threads: each on a stream of its own, and one with the per-thread default stream.

Usage: python -m sim.workloads.threads --threads N
"""

from __future__ import annotations

import threading
from collections import Counter

from sim.workloads.driver import Driver, options


def main() -> None:
    """Run the threads."""
    given = options(__doc__, threads=8, launches=101, launch_us=3)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    counts: list[Counter[str]] = []
    failures: list[Exception] = []

    def run(index: int) -> None:
        own = Driver.__new__(Driver)  # counts of its own: a Counter is not for threads
        own.library, own.counts, own.context = driver.library, Counter(), driver.context
        try:
            own.use()
            if index % 2:
                for _ in range(given.launches):
                    own.launch(function, name="cuLaunchKernel_ptsz")
                own.call("cuStreamSynchronize_ptsz", None)
            else:
                stream = own.stream()
                for _ in range(given.launches):
                    own.launch(function, stream)
                own.synchronize(stream)
        except Exception as error:
            failures.append(error)
        counts.append(own.counts)

    workers = [threading.Thread(target=run, args=(index,)) for index in range(given.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for each in counts:
        driver.counts += each
    driver.report()
    if failures:
        raise SystemExit(str(failures[0]))


if __name__ == "__main__":
    main()
