"""The whole suite: `make incidents`, or `python -m tests.incidents --incidents 49 --hours 20`."""

from __future__ import annotations

import argparse
import sys
import time
from multiprocessing import get_context

from tests.incidents.incidents import INCIDENTS
from tests.incidents.report import report
from tests.incidents.seeds import run_healthy, run_incidents
from tests.incidents.suite import Outcome

LEAST_RIGHT_RATIO = 0.99


def main() -> int:
    """Run it, print the report, and return 0 if the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--incidents", type=int, default=22 * len(INCIDENTS), help="how many")
    parser.add_argument("--hours", type=float, default=1000.0, help="healthy simulated hours")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--reveal", action="store_true", help="also name the unseen misses")
    given = parser.parse_args()
    began = time.monotonic()
    incidents: list[Outcome] = []
    healthy: list[Outcome] = []
    # Spawned, so that no state of this process is shared.
    with get_context("spawn").Pool(given.workers) as pool:
        chunks = [list(range(n, min(n + 8, given.incidents))) for n in range(0, given.incidents, 8)]
        for part in pool.imap_unordered(run_incidents, chunks):
            incidents += part
        seed = 0
        while sum(o.hours for o in healthy) < given.hours:
            # Most seeds are an hour, some less: go on until there are enough.
            left = max(8.0, given.hours - sum(o.hours for o in healthy))
            count = min(400, int(left * 1.2) + 1)
            more = [list(range(n, n + 4)) for n in range(seed, seed + count, 4)]
            seed = more[-1][-1] + 1
            for part in pool.imap_unordered(run_healthy, more):
                healthy += part
    incidents.sort(key=lambda o: o.seed)
    healthy.sort(key=lambda o: o.seed)
    print(report(incidents, healthy, reveal=given.reveal))  # noqa: T201
    print(f"\n{time.monotonic() - began:.0f} s with {given.workers} workers")  # noqa: T201
    alarms = sum(len(o.wrong) for o in healthy)
    for unseen in (False, True):
        part = [o for o in incidents if o.unseen is unseen]
        if sum(o.right for o in part) < LEAST_RIGHT_RATIO * len(part):
            return 1
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
