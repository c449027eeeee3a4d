"""Every function of the table, called a prime number of times, counted exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpugauge.model.abi import Loss, Slot
from sim.stubs import symbols
from tests.linux.tracing import MODES, VENDOR, Counts, Traced, primes, traced

FUNCTIONS = {f.symbol: f for f in VENDOR.functions if f.symbol in set(symbols())}
NEWER = {f.symbol for f in VENDOR.functions} - FUNCTIONS.keys()
"""Functions of drivers newer than the simulated one."""


def test_what_the_simulated_driver_lacks_is_newer_than_it() -> None:
    assert {
        f"{name}{suffix}"
        for name in (
            "cuMemcpyWithAttributesAsync",
            "cuMemcpy3DWithAttributesAsync",
            "cuStreamBeginRecaptureToGraph",
            "cuLaunchHostFunc_v2",
        )
        for suffix in ("", "_ptsz")
    } | {"cuGraphAddNode_v3"} == NEWER


@pytest.mark.parametrize("shape", ["push", "je"])
@pytest.mark.parametrize("mode", MODES)
def test_every_function(tmp_path: Path, mode: str, shape: str) -> None:
    with traced(tmp_path, mode, shape, device_count=2) as it:
        wrong = compare_all(it)
    assert wrong == []


def compare_all(it: Traced) -> list[str]:
    """Call one function after the other; return what differs."""
    chosen = sorted(it.traced_symbols & FUNCTIONS.keys())
    times = dict(zip(chosen, primes(3, len(chosen)), strict=True))
    # Primes from 3 to about 1,900, but slow functions less often.
    times = {name: n if n < 120 else n % 97 + 2 for name, n in times.items()}
    times = {name: primes(n, 1)[0] for name, n in times.items()}
    arguments = [f"{name}={n}" for name, n in times.items()]
    command = [sys.executable, "-m", "tests.linux.every_function", *arguments]
    wrong: list[str] = []
    with it.machine.start(command, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        before = (it.counted(), it.called())
        for name in chosen:
            child.stdin.write("\n")
            child.stdin.flush()
            line = child.stdout.readline()
            assert line, f"{name}: {child.wait()} {child.stderr and child.stderr.read()}"
            said = json.loads(line)
            assert said["symbol"] == name
            assert said["calls"] >= times[name], name
            now = (it.counted(), it.called())
            moved = {name: Slot[said["slot"]]} if said["slot"] else {}
            expected = it.expected(now[1] - before[1], moved)
            wrong += differences(said, now[0].since(before[0]), expected)
            before = now
        child.communicate("\n")
        assert child.returncode == 0
    # Addresses of 32 bits are not followed: freeing them by a newer name is of unknown memory.
    called = it.called()
    unknown = sum(called[name, 0] for name in ("cuMemAlloc", "cuMemAllocPitch"))
    lost = it.losses()
    if lost != ({Loss.POINTER_UNKNOWN: unknown} if it.tracer.mode.value != "perf" else {}):
        wrong.append(f"lost: {lost}")
    return wrong


def differences(said: dict[str, Any], counted: Counts, expected: Counts) -> list[str]:
    """Return what is wrong with the counts of one function."""
    pairs = {
        "calls": (counted.calls, expected.calls),
        "errors": (counted.errors, expected.errors),
        "launch threads": (counted.launch_threads, said["launch_threads"]),
        "bytes": (sum(counted.bytes.values()), said["bytes"]),
    }
    name = said["symbol"]
    return [f"{name}: {what} {got}, not {want}" for what, (got, want) in pairs.items()
            if got != want]  # fmt: skip
