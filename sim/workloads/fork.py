"""Fork: the parent calls the driver, forks, and both go on; the child may also exec.

Usage: python -m sim.workloads.fork [--exec-child 1]
"""

from __future__ import annotations

import os
import sys

from sim.workloads.driver import Driver, options


def work(device: int, launches: int) -> None:
    """Launch a number of times and report."""
    driver = Driver(device)
    function = driver.function("busy_2us")
    for _ in range(launches):
        driver.launch(function)
    driver.drain()
    driver.report()


def main() -> None:
    """Be parent and child. The child must start the driver anew, as a real one asks for too."""
    given = options(__doc__, launches=19, child_launches=11, exec_child=0)
    work(given.device, given.launches)
    pid = os.fork()
    if not pid:
        if given.exec_child:
            flags = ["--launches", str(given.child_launches), "--child-launches", "0"]
            os.execv(sys.executable, [sys.executable, "-m", "sim.workloads.fork", *flags])
        if given.child_launches:
            work(given.device, given.child_launches)
        os._exit(0)
    raise SystemExit(os.waitpid(pid, 0)[1] != 0)


if __name__ == "__main__":
    main()
