"""What is on no known device, or has only begun, shows as unknown and not as nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gpugauge.model.abi import Cause, Slot
from gpugauge.model.workload import UNKNOWN
from tests.linux.tracing import Session, traced

OUT_OF_MEMORY = 2


NO_CONTEXT = """
import ctypes, os
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
library.cuInit(0)
for _ in range(3):
    library.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)
print(os.getpid(), flush=True)
input()
"""


def test_a_context_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """It is on no device yet, and its error is the only sign of the trouble."""
    with traced(tmp_path) as it:
        it.machine.control.fail("cuCtxCreate_v2", OUT_OF_MEMORY, calls=3)
        command = [sys.executable, "-c", NO_CONTEXT]
        with it.machine.start(command, stdin=subprocess.PIPE) as child:
            assert child.stdout is not None
            device = it.device(int(child.stdout.readline()))
            assert device.gpu_uuid == UNKNOWN
            assert device.errors == {(Slot.CONTEXT, OUT_OF_MEMORY): 3}
            (series,) = it.tick().series
            assert series.errors == {(Slot.CONTEXT, OUT_OF_MEMORY): 3}
            child.communicate("\n")


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
