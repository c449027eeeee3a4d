"""What is on no known device, or has only begun, shows as unknown and not as nothing."""

from __future__ import annotations

import time
from pathlib import Path

from gpugauge.model.abi import Cause, Slot
from gpugauge.model.workload import UNKNOWN
from tests.linux.tracing import Session, traced

OUT_OF_MEMORY = 2


def test_a_context_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """It is on no device yet, and its error is the only sign of the trouble."""
    with traced(tmp_path) as it, Session(it) as session:
        it.machine.control.fail("cuCtxCreate_v2", OUT_OF_MEMORY, calls=3)
        text = "for _ in range(3): attempt('cuCtxCreate_v2', byref(c_void_p()), 0, 0)"
        (pid,) = [session.pid]
        with_own_thread = (
            f"worker = threading.Thread(target=lambda: exec({text!r})); worker.start(); "
            "worker.join()"
        )
        session.run(with_own_thread)
        devices = {d.contexts: d for d in it.process(pid).devices}
        assert devices[0].gpu_uuid == UNKNOWN
        assert devices[0].errors == {(Slot.CONTEXT, OUT_OF_MEMORY): 3}
        series = [each for each in it.tick().series if each.errors]
        assert [each.errors for each in series] == [{(Slot.CONTEXT, OUT_OF_MEMORY): 3}]


def test_a_first_call_that_never_returns_is_seen(tmp_path: Path) -> None:
    with traced(tmp_path) as it, Session(it) as session:
        it.machine.control.hang("cuCtxSynchronize_v2")
        session.start("driver.drain()")
        while not it.device_open(session.pid):
            time.sleep(0.005)
        (device,) = it.process(session.pid).devices
        assert device.open_calls[Cause.SYNCHRONIZE].calls == 1
        assert device.active
        it.machine.control.heal("cuCtxSynchronize_v2")
