"""A copy between devices is work of both."""

from __future__ import annotations

from pathlib import Path

from gpugauge.model.abi import STREAM_IDLE, STREAM_MIXED, Slot
from tests.linux.tracing import Session, Traced, traced

TWO_DEVICES = """
other = c_void_p(); call('cuCtxCreate_v2', byref(other), 0, 1)
there = driver.allocate(4099)
driver.launch(driver.function('busy_1us')); driver.synchronize()
driver.use(); stream = driver.stream(); here = driver.allocate(4099)
driver.launch(function, stream); driver.synchronize(stream)
"""
COPY = "call('cuMemcpyPeerAsync', here, driver.context, there, other, c_size_t(4099), stream)"


def outstanding(it: Traced, pid: int) -> tuple[int, int]:
    """Return what is outstanding on the two devices."""
    number = it.process(pid).number
    places = it.state.processes.by_number[number].slot.places
    return places[0].stream, places[1].stream


def test_the_source_is_not_idle_while_it_is_read(tmp_path: Path) -> None:
    with traced(tmp_path, device_count=2) as it, Session(it) as session:
        session.run(TWO_DEVICES)
        assert outstanding(it, session.pid) == (STREAM_IDLE, STREAM_IDLE)
        session.run(COPY)
        first, second = outstanding(it, session.pid)
        assert first not in (STREAM_IDLE, STREAM_MIXED)
        assert second == STREAM_MIXED
        session.run("driver.synchronize(stream)")
        assert outstanding(it, session.pid) == (STREAM_IDLE, STREAM_MIXED)
        # Both submissions have returned: a wait for its only context drains the source again.
        session.run("call('cuCtxSynchronize_v2', other)")
        assert outstanding(it, session.pid) == (STREAM_IDLE, STREAM_IDLE)
        assert it.counted([session.pid]).calls[Slot.COPY_PEER] == 1
        assert it.losses() == {}
