"""Memory asked for beside memory held, split, for programs of three kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from gpugauge.explain.account import account
from gpugauge.model.abi import Family
from gpugauge.units import MIB
from tests.gpu.agent import AgentProcess
from tests.gpu.counts import OTHER, TORCH
from tests.gpu.rows import Row

PROGRAMS = {
    "plain CUDA": (OTHER, "plain"),
    "PyTorch": (TORCH, "memory"),
    "JAX": (OTHER, "jax_memory"),
}
SLACK_BYTES = 64 * MIB
"""Known extras of PyTorch beside its allocator: libraries' own small allocations."""


def memory_rows(agent: AgentProcess) -> Iterator[Row]:
    """Hold each program where its memory is taken, and compare."""
    for name, (module, program) in PROGRAMS.items():
        child = subprocess.Popen(
            [sys.executable, "-m", module, program, "--marked"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdin and child.stdout
        marks = (line for line in child.stdout if line.startswith('{"mark"'))
        next(marks)
        child.stdin.write("\n")
        child.stdin.flush()
        told = json.loads(next(marks))
        try:
            yield from _rows(name, child.pid, told, agent)
        finally:
            child.stdin.write("\n")
            child.stdin.close()
            child.wait(timeout=30)


def _rows(name: str, pid: int, told: dict[str, int], agent: AgentProcess) -> Iterator[Row]:
    snapshot = agent.wait_ticks(7)
    process = next(p for p in snapshot.processes if p.pid == pid)
    device = next(d for d in process.devices if d.memory)
    split = account(process, device)
    listed = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    held_mib = {int(a): int(b) for a, b in (line.split(",") for line in listed)}
    requested = split.requested_bytes or 0
    host = sum(
        one.requested_bytes
        for family, one in (device.memory or {}).items()
        if family in (Family.HOST, Family.HOST_REGISTERED)
    )
    truth = told["requested_bytes"]
    yield Row(f"{name} memory", "requested, bytes", f"{truth:,}", f"{requested:,}",
              0 <= requested - truth <= (0 if name == "plain CUDA" else SLACK_BYTES))  # fmt: skip
    yield Row.equal(f"{name} memory", "held, MiB", held_mib.get(pid, -1),
                    (split.held_bytes or 0) // MIB)  # fmt: skip
    parts = {
        "context": split.context_bytes,
        "requested": requested,
        "rounding": split.rounding_bytes,
        "rest": split.rest_bytes,
    }
    told_parts = ", ".join(
        f"{part} {'unknown' if size is None else f'{size / MIB:,.1f}'}"
        for part, size in parts.items()
    )
    whole = sum(size or 0 for size in parts.values())
    yield Row(f"{name} memory", "split of held, MiB (pinned host beside it)",
              f"{(split.held_bytes or 0) / MIB:,.1f}", f"{told_parts} ({host / MIB:,.1f})",
              split.rest_bytes is None or whole == split.held_bytes)  # fmt: skip
