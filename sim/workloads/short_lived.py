"""Short-lived processes: each makes a context, a few launches, and is gone.

Usage: python -m sim.workloads.short_lived --processes N
"""

from __future__ import annotations

import os

from sim.workloads.driver import Driver, options


def one(device: int, launches: int) -> None:
    """Be one short process."""
    driver = Driver(device)
    function = driver.function("busy_1us")
    for _ in range(launches):
        driver.launch(function)
    driver.synchronize()
    driver.report()


def main() -> None:
    """Start one process after the other; each calls the driver only after its fork."""
    given = options(__doc__, processes=5, launches=17)
    failed = 0
    for _ in range(given.processes):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                one(given.device, given.launches)
                code = 0
            finally:
                os._exit(code)
        failed += os.waitpid(pid, 0)[1] != 0
    raise SystemExit(failed != 0)


if __name__ == "__main__":
    main()
