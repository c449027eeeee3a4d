"""Whatever is lost moves a counter of its own, and only that one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpugauge.model.abi import Loss, Slot
from tests.linux.tracing import Session, Traced, traced

THREADS_AT_ONCE = """
gate = threading.Barrier(8)
def run():
    call = getattr(driver.library, "cuCtxSetCurrent")
    call(driver.context)
    gate.wait()
    for _ in range(13):
        driver.library.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
    gate.wait()
workers = [threading.Thread(target=run) for _ in range(7)]
[each.start() for each in workers]
gate.wait(); gate.wait()
[each.join() for each in workers]
"""

FULL: Mapping[str, tuple[dict[str, int], str, Loss, int]] = {
    # 3 rows are two threads and the first one; five of seven find none, at each of 14 calls.
    "threads": ({"threads": 3}, THREADS_AT_ONCE, Loss.THREADS_FULL, 5 * 14),
    # The first thread has two rows: at no device before its context, and at device 0.
    "thread_counts": ({"thread_counts": 4}, THREADS_AT_ONCE, Loss.COUNTS_FULL, 0),
    "contexts": (
        {"contexts": 3},
        "for _ in range(5):\n"
        "    made = c_void_p(); call('cuCtxCreate_v2', byref(made), 0, 0)\n"
        "    call('cuCtxPopCurrent_v2', byref(made))",
        Loss.CONTEXTS_FULL,
        3,
    ),
    "streams": (
        {"streams": 5},
        "made = [driver.stream() for _ in range(11)]",
        Loss.STREAMS_FULL,
        6,
    ),
    "allocations": (
        {"allocations": 7},
        "made = [driver.allocate(4099) for _ in range(13)]",
        Loss.ALLOCATIONS_FULL,
        6,
    ),
    "graphs": (
        {"graphs": 2},
        "for _ in range(5): call('cuGraphCreate', byref(c_void_p()), 0)",
        Loss.GRAPHS_FULL,
        3,
    ),
    "captures": (
        {"captures": 1},
        "a, b = driver.stream(), driver.stream(); graph = c_void_p()\n"
        "for each in (a, b): call('cuStreamBeginCapture_v2', each, 2)\n"
        "for each in (a, b): call('cuStreamEndCapture', each, byref(graph))",
        Loss.GRAPHS_FULL,
        1,
    ),
    "event_marks": (
        {"event_marks": 3},
        "for _ in range(7): call('cuEventRecord', driver.event(), None)",
        Loss.EVENTS_FULL,
        4,
    ),
    "errors": (
        {"errors": 1},
        "call('cuCtxSetCurrent', driver.context)\n"
        "for _ in range(5): attempt('cuStreamQuery', c_void_p(12345))\n"
        "for _ in range(3): attempt('cuMemFree_v2', c_uint64(7))",
        Loss.ERRORS_FULL,
        3,
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_map(tmp_path: Path, name: str) -> None:
    entries, text, loss, lost = FULL[name]
    with traced(tmp_path, map_entries=entries) as it, Session(it) as session:
        before = it.losses()
        session.run(text)
        after = it.losses()
        grown = {each: n - before.get(each, 0) for each, n in after.items()}
        grown.pop(Loss.POINTER_UNKNOWN, None)
        assert grown.keys() == {loss}
        if lost:
            assert grown[loss] == lost
        else:
            assert grown[loss] > 0
        if loss not in (Loss.THREADS_FULL, Loss.COUNTS_FULL):
            assert it.counted().calls == it.truth().calls
        else:  # what was counted is below what happened, by what the counter says
            assert it.counted().calls.total() < it.truth().calls.total()
            missing = it.truth().calls.total() - it.counted().calls.total()
            assert missing == grown[loss]


def test_more_processes_than_slots(tmp_path: Path) -> None:
    entries = {"processes": 1, "free_slots": 1, "process_slots": 1}
    with traced(tmp_path, map_entries=entries) as it, Session(it), Session(it) as second:
        assert it.losses().keys() == {Loss.PROCESSES_FULL}
        before = it.losses()[Loss.PROCESSES_FULL]
        second.run("for _ in range(5): driver.launch(function)")
        assert it.losses()[Loss.PROCESSES_FULL] == before + 5
        assert len(it.tick().processes) == 1


def test_a_full_table_of_processes_hands_the_slot_back(tmp_path: Path) -> None:
    entries = {"process_slots": 1, "processes": 3, "free_slots": 3}
    with traced(tmp_path, map_entries=entries) as it:
        with Session(it) as first, Session(it) as second:
            second.run("for _ in range(7): driver.launch(function)")
            assert it.losses().keys() == {Loss.PROCESSES_FULL}
            first.end()
            second.end()
        it.tick()
        assert it.reap_ended() == 1
        with Session(it) as third:
            third.run("for _ in range(3): driver.launch(function)")
            assert it.device(third.pid).operations[Slot.LAUNCH].calls == 3


def test_a_ring_that_nobody_reads(tmp_path: Path) -> None:
    """A page holds about fifty events; a container gets eight a second, the rest is counted."""
    text = (
        "for _ in range(11):\n"
        "    made = c_void_p(); call('cuCtxCreate_v2', byref(made), 0, 0)\n"
        "    call('cuCtxDestroy_v2', made)"
    )
    with traced(tmp_path, map_entries={"events": 4096}) as it, Session(it) as session:
        session.run(text)
        lost = it.tick().agent.losses
        assert lost[Loss.RING_LIMITED] > 0
        assert lost[Loss.RING_FULL] == 0
        seconds = 0
        while not lost[Loss.RING_FULL]:
            assert seconds < 30
            time.sleep(1)
            seconds += 1
            session.run(text)
            lost = it.tick().agent.losses
        assert it.losses().keys() == {Loss.RING_FULL}
        assert it.counted().calls == it.truth().calls


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    with traced(tmp_path_factory.mktemp("shared")) as it:
        yield it


def grown(it: Traced, session: Session, text: str) -> dict[Loss, int]:
    """Return how the losses grew by a step."""
    before = it.losses()
    session.run(text)
    return {
        loss: n - before.get(loss, 0) for loss, n in it.losses().items() if n != before.get(loss, 0)
    }


BAD = "c_void_p(8)"
ARGUMENTS: Mapping[str, tuple[str, int, str, dict[Loss, int]]] = {
    "the struct of a launch": (
        "cuLaunchKernelEx",
        1,
        f"for _ in range(5): attempt('cuLaunchKernelEx', {BAD}, function, None, None)",
        {Loss.STREAM_UNREADABLE: 5},
    ),
    "the struct of a copy": (
        "cuMemcpy2D_v2",
        1,
        f"for _ in range(7): attempt('cuMemcpy2D_v2', {BAD})",
        {Loss.SIZE_UNREADABLE: 7},
    ),
    "more copies in a batch than are read": (
        "cuMemcpyBatchAsync_v2",
        1,
        "sizes = (c_size_t * 131)(*[1] * 131)\n"
        "attempt('cuMemcpyBatchAsync_v2', None, None, sizes, c_size_t(131), None, None, "
        "c_size_t(0), None)",
        {Loss.SIZE_UNREADABLE: 1},
    ),
    "a result that cannot be read": (
        "cuStreamCreate",
        0,
        f"for _ in range(3): attempt('cuStreamCreate', {BAD}, c_uint(0))",
        {Loss.RESULT_UNREADABLE: 3},
    ),
    "a free of what was never allocated": (
        "cuMemFree_v2",
        0,
        "for _ in range(11): attempt('cuMemFree_v2', c_uint64(0x123450))",
        {Loss.POINTER_UNKNOWN: 11},
    ),
    "an address that is handed out twice": (
        "cuMemAlloc_v2",
        0,
        "twice = c_uint64(0x765430)\n"
        "for _ in range(6): attempt('cuMemAlloc_v2', byref(twice), c_size_t(13))",
        {Loss.POINTER_REPLACED: 5},
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(shared: Traced, name: str) -> None:
    """The library answers without looking at its arguments, so that wild ones do no harm."""
    symbol, code, text, lost = ARGUMENTS[name]
    with Session(shared) as session:
        shared.machine.control.fail(symbol, code)
        try:
            assert grown(shared, session, text) == lost
        finally:
            shared.machine.control.heal(symbol)
        assert shared.counted([session.pid]).calls == shared.truth([session.pid]).calls


def test_a_free_of_nothing_is_no_loss(shared: Traced) -> None:
    with Session(shared) as session:
        assert grown(shared, session, "attempt('cuMemFree_v2', c_uint64(0))") == {}


def test_a_deep_context_stack(shared: Traced) -> None:
    """Eight are kept; what is beyond is on no known device, until it is popped again."""
    with Session(shared) as session:
        # A second context, so that it is not the only one that a call can be in.
        session.run(
            "call('cuCtxCreate_v2', byref(c_void_p()), 0, 0)\n"
            "call('cuCtxPopCurrent_v2', byref(c_void_p()))"
        )
        text = "for _ in range(7): call('cuCtxPushCurrent_v2', driver.context)"
        assert grown(shared, session, text) == {}
        text = "for _ in range(3): call('cuCtxPushCurrent_v2', driver.context)"
        assert grown(shared, session, text) == {Loss.DEPTH: 3}
        text = "driver.launch(function)\n"
        text += "for _ in range(10): call('cuCtxPopCurrent_v2', byref(c_void_p()))\n"
        assert grown(shared, session, text + "[driver.launch(function) for _ in range(2)]") == {}
        calls = {
            contexts: device.operations[Slot.LAUNCH].calls
            for device in shared.process(session.pid).devices
            for contexts in [device.contexts]
        }
        assert calls == {2: 2, 0: 1}


def test_a_destroyed_context_leaves_the_stack(shared: Traced) -> None:
    """As if popped, where it was current (cuCtxDestroy); one that is not current is not popped."""
    with Session(shared) as session:
        text = (
            "made = c_void_p(); call('cuCtxCreate_v2', byref(made), 0, 1)\n"
            "call('cuCtxDestroy_v2', made)\n"
            "driver.launch(function)\n"
        ) * 11
        text = text.replace("0, 1)", "0, 0)")
        assert grown(shared, session, text) == {}
        assert session.run("answer = attempt('cuCtxDestroy_v2', driver.context)") != 0
        session.run("driver.launch(function)")
        device = shared.device(session.pid)
        assert device.operations[Slot.LAUNCH].calls == 12
        assert device.contexts == 1
