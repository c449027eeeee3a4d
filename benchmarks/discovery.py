"""How soon probes are in a driver library that was never seen, and out of it after its last user.

    python -m benchmarks.discovery [rounds]

Method: README.md. Needs root, the compiled BPF objects and the simulated driver.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpugauge.agent.libraries import Libraries
from gpugauge.agent.tracer import Tracer
from gpugauge.discovery.host import mapped_file_id
from gpugauge.settings import Settings
from sim import build

ROUNDS = 11
TARGET_MS = 100.0
USER = """
import ctypes, sys, time
sys.stdin.readline()
began = time.monotonic_ns()
ctypes.CDLL(sys.argv[1])
print(began, flush=True)
sys.stdin.readline()
"""


def main(arguments: list[str]) -> int:
    """Measure, print, and return 1 when a target is missed."""
    rounds = int(arguments[0]) if arguments else ROUNDS
    attached, released = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            library = Path(folder, str(number), "libcuda.so.1")
            library.parent.mkdir()
            shutil.copy(build.cached("push"), library)
            one, other = once(library)
            attached.append(one)
            released.append(other)
    print(f"{rounds} files that were never seen, ms: median (least - most)")
    show("mapped until all probes are in", attached)
    show("last user gone until all probes are out", released)
    missed = max(statistics.median(attached), statistics.median(released)) > TARGET_MS
    print(f"target {TARGET_MS:.0f} ms: {'missed' if missed else 'met'}")
    return int(missed)


def show(name: str, values: list[float]) -> None:
    print(f"  {name:42} {statistics.median(values):6.1f} ({min(values):.1f} - {max(values):.1f})")


def once(library: Path) -> tuple[float, float]:
    """Return both times of one file, in milliseconds."""
    file_id = mapped_file_id(str(library))
    assert file_id is not None
    tracer = Tracer(Settings())
    libraries = Libraries(tracer, scan_seconds=60.0, hosts=lambda: (), only=frozenset((file_id,)))
    command = [sys.executable, "-S", "-c", USER, str(library)]
    try:
        libraries.start()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as user:
            assert user.stdin is not None
            assert user.stdout is not None
            time.sleep(1.0)  # until the child that inspects waits
            user.stdin.write("\n")
            user.stdin.flush()
            attached_ns = when(lambda: bool(tracer.libraries()))
            mapped_ns = int(user.stdout.readline())
            user.kill()
            user.wait()
            gone_ns = time.monotonic_ns()
            released_ns = when(lambda: not tracer.links_in_use)
        return (attached_ns - mapped_ns) / 1e6, (released_ns - gone_ns) / 1e6
    finally:
        libraries.stop()
        tracer.close()


def when(happened: Callable[[], bool]) -> int:
    """Wait for something; return when it was seen."""
    deadline = time.monotonic() + 10
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen within 10 s")
        time.sleep(0.001)
    return time.monotonic_ns()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
