"""The whole run on a real GPU: a table of truth beside measured.

Usage (root, with gpugauge and its dependencies on the path):
    python -m tests.gpu.validate --out FOLDER [--parts counts,signals]

On a machine with the simulated driver only, `--parts driver` runs what needs no GPU.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.gpu import counts, memory, overhead, signals
from tests.gpu.agent import AgentProcess
from tests.gpu.rows import Row

Part = Callable[[AgentProcess], Iterable[Row]]
PARTS: dict[str, tuple[Part, ...]] = {
    "driver": (counts.driver_rows, counts.probe_rows),
    "counts": (counts.driver_rows, counts.torch_rows, counts.other_rows, counts.probe_rows),
    "memory": (memory.memory_rows,),
    "queue": (signals.queue_rows,),
    "overhead": (overhead.overhead_rows,),
    "signals": (
        signals.queue_rows,
        signals.idle_rows,
        signals.wait_rows,
        memory.memory_rows,
        signals.contention_rows,
        counts.probe_rows,
    ),
}


def machine() -> str:
    """Return what it ran on."""
    try:
        gpu = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        gpu = "no GPU (simulated driver)"
    return f"{time.strftime('%Y-%m-%d')}, {gpu}, Linux {platform.release()}"


def main() -> int:
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default="counts,signals,overhead")
    parser.add_argument("--attach-mode", default="auto")
    given, flags = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    table = given.out / f"table-{given.attach_mode}.md"
    agent = AgentProcess(given.out / "agent.log", f"--attach-mode={given.attach_mode}", *flags)
    try:
        for name in given.parts.split(","):
            for part in PARTS[name]:
                began = time.monotonic()
                try:
                    for row in part(agent):
                        rows.append(row)
                        print(row.markdown(), flush=True)
                except Exception:
                    rows.append(Row(part.__name__, "ran", "yes", "failed", False))
                    traceback.print_exc()
                print(f"# {part.__name__}: {time.monotonic() - began:.0f} s", flush=True)
        (given.out / "metrics.txt").write_bytes(agent.fetch("/metrics"))
    finally:
        code = agent.close()
    rows.append(Row.equal("agent", "exit code after SIGTERM", 0, code))
    lines = [f"{machine()}; {given.attach_mode} mode", "",
             "| program | what | truth | gpugauge | met |", "|---|---|---|---|---|",
             *(row.markdown() for row in rows)]  # fmt: skip
    table.write_text("\n".join(lines) + "\n")
    missed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(missed)} passed, {len(missed)} failed; {table}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
