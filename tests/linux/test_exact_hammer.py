"""Counts under load equal the oracle's: threads, processes, fork, exec, short lives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpugauge.model.abi import Loss, Slot
from tests.linux.tracing import MODES, Traced, traced

NAMES = "cuLaunchKernel,cuMemcpyHtoDAsync_v2,cuStreamSynchronize,cuMemAlloc_v2,cuStreamQuery"
HARMLESS = {Loss.POINTER_REPLACED, Loss.STATE_CONTENDED}
"""Neither loses a count. The oracle's own library hands out an address again before a free
returned; and 32 threads on one word make one of eight tries fail now and then."""


def must_equal(it: Traced) -> None:
    """Hold the counters against the oracle, and see that nothing was lost."""
    counted, truth = it.counted(), it.truth()
    assert counted.calls == truth.calls
    assert counted.errors == truth.errors
    assert not it.losses().keys() - HARMLESS
    rows = it.oracle.truths()
    assert counted.launch_threads == sum(row.launch_threads for row in rows)
    assert counted.bytes[Slot.COPY_HTOD] == sum(row.bytes_htod for row in rows)
    assert counted.bytes[Slot.COPY_DTOH] == sum(row.bytes_dtoh for row in rows)


def hammer(it: Traced, calls: int, threads: int, processes: int) -> None:
    """Hammer, and read all the while."""
    program = str(it.machine.library.parent / "hammer")
    numbers = [str(number) for number in (calls, threads, processes)]
    last: dict[Slot, int] = {}
    with it.machine.start([program, str(it.machine.library), NAMES, *numbers]) as child:
        while child.poll() is None:
            counted = it.counted().calls
            assert all(counted[slot] >= before for slot, before in last.items())
            last = dict(counted)
            time.sleep(0.05)
        assert child.returncode == 0, child.stderr.read()


@pytest.mark.parametrize("mode", MODES)
def test_threads_of_several_processes(tmp_path: Path, mode: str) -> None:
    calls = 31_259 if mode == "session" else 3_121
    with traced(tmp_path, mode, instant=1) as it:
        hammer(it, calls, threads=8, processes=4)
        must_equal(it)
        assert it.counted().calls.total() > 32 * calls
        assert it.reap_ended() == 4
        must_equal_after_reaping(it)


def must_equal_after_reaping(it: Traced) -> None:
    """What ended processes left is in the series, and their rows are gone."""
    truth = it.truth().calls
    (series,) = it.tick().series
    for slot in (Slot.LAUNCH, Slot.COPY_HTOD, Slot.SYNCHRONIZE, Slot.ALLOCATE, Slot.FREE):
        assert series.operations[slot].calls == truth[slot]
    raw = it.reader.read()
    assert raw.slots == {}
    for chunks in (raw.process_counts, raw.thread_counts, raw.threads, raw.errors, raw.memories,
                   raw.contexts, raw.devices):  # fmt: skip
        assert sum(len(keys) for keys, _ in chunks) == 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_million_calls(tmp_path: Path) -> None:
    with traced(tmp_path, instant=1) as it:
        hammer(it, 312_509, threads=8, processes=4)
        must_equal(it)
        assert it.counted().calls.total() > 10_000_000
