"""What the diagnosis costs a tick, beside writing the same snapshot as JSON. See README.md.

Usage: python -m benchmarks.diagnosis
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from gpugauge.codec.snapshot import dump_snapshot  # noqa: E402
from gpugauge.diagnosis import Engine  # noqa: E402
from gpugauge.settings import Settings  # noqa: E402
from tests.incidents import programs  # noqa: E402
from tests.incidents.node import Node  # noqa: E402

WORKLOADS = (1, 10, 100)
WARM_TICKS, TICKS = 180, 120
HISTORY_LIMIT_BYTES = 20 * 1024 * 1024


def measure(workloads: int) -> tuple[float, float, float, int]:
    """Return CPU milliseconds a tick, its 90th percentile, the ratio to JSON, history bytes."""
    node = Node(random.Random(7), gpus=8)
    node.default_contention = 0.01
    for number in range(workloads):
        program = programs.training(random.Random(number))
        node.start(f"job{number % 50}-{number}", program, gpu=number % 8)
    engine = Engine(Settings())
    for _ in range(WARM_TICKS):
        engine.observe(node.tick())
    observing, writing = [], []
    for _ in range(TICKS):
        snapshot = node.tick()
        began = time.process_time()
        engine.observe(snapshot)
        middle = time.process_time()
        dump_snapshot(snapshot)
        observing.append((middle - began) * 1e3)
        writing.append((time.process_time() - middle) * 1e3)
    late = statistics.quantiles(observing, n=10)[-1]
    mean = statistics.fmean(observing)
    return mean, late, mean / statistics.fmean(writing), engine.history_bytes


def main(_: Sequence[str]) -> int:
    """Print the table; 1 where the history is above its limit."""
    print("workloads   CPU ms a tick   p90   of writing the snapshot   history bytes")
    within = True
    for workloads in WORKLOADS:
        mean, late, ratio, size = measure(workloads)
        within &= size <= HISTORY_LIMIT_BYTES
        print(f"{workloads:9}   {mean:13.2f}   {late:5.2f}   {ratio:22.2f}   {size:13,}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
