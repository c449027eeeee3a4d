"""The oracle's counts equal the programs' own, under threads, forks, errors and SIGKILL."""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from sim.machine import machine, workload_command
from sim.workloads import NAMES

OWN_PROCESS = [name for name in NAMES if name not in {"fork", "short_lived"}]


@pytest.mark.parametrize("shape", ["push", "je"])
@pytest.mark.parametrize("name", OWN_PROCESS)
def test_workload_counts(tmp_path: Path, name: str, shape: str) -> None:
    small = {"saturate": {"launches": 1511, "launch_us": 5}, "inference": {"think_us": 100}}
    with machine(tmp_path, shape) as device:
        (line,) = device.workload(name, **small.get(name, {}))
        assert line["simulated"]
        assert device.oracle.calls([line["pid"]]) == Counter(line["counts"])
        assert len(device.oracle.processes()) == 1


@pytest.mark.parametrize(("name", "processes"), [("fork", 2), ("short_lived", 5)])
def test_each_child_has_its_own_counts(tmp_path: Path, name: str, processes: int) -> None:
    with machine(tmp_path) as device:
        lines = device.workload(name)
        assert len(lines) == processes
        for line in lines:
            assert device.oracle.calls([line["pid"]]) == Counter(line["counts"])
        parents = {each.pid: each.parent_pid for each in device.oracle.processes()}
    if name == "fork":
        assert parents == {lines[0]["pid"]: 0, lines[1]["pid"]: lines[0]["pid"]}


def test_exec_starts_a_process_anew_under_the_same_pid(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        first, second = device.workload("fork", exec_child=1)
        found = device.oracle.processes()
    assert [each.pid for each in found] == [first["pid"], second["pid"]]
    assert found[1].calls["cuLaunchKernel"].succeeded == 11


def test_exact_over_processes_and_threads(tmp_path: Path) -> None:
    names = "cuLaunchKernel,cuMemcpyHtoDAsync_v2,cuStreamSynchronize,cuMemAlloc_v2,cuCtxSetFlags"
    with machine(tmp_path, instant=1) as device:
        lines = device.hammer(names, 10_007, threads=8, processes=4)
        total = device.oracle.calls()
        rows = device.oracle.truths()
    assert len(lines) == len(rows) == 4
    assert sum(line["failed"] for line in lines) == 0
    per_thread = {name: len(range(at, 10_007, 5)) for at, name in enumerate(names.split(","))}
    for name, calls in per_thread.items():
        extra = 4 if name == "cuMemAlloc_v2" else 0  # the hammer's own buffer
        assert total[name] == calls * 32 + extra
    assert sum(row.launches for row in rows) == per_thread["cuLaunchKernel"] * 32
    assert sum(row.launch_threads for row in rows) == per_thread["cuLaunchKernel"] * 32 * 32
    assert sum(row.bytes_htod for row in rows) == per_thread["cuMemcpyHtoDAsync_v2"] * 32 * 8


def test_injected_codes_are_counted_exactly(tmp_path: Path) -> None:
    with machine(tmp_path, instant=1) as device:
        device.control.fail("cuLaunchKernel", 719, calls=23)
        (line,) = device.hammer("cuLaunchKernel", 101, threads=3)
        assert line["failed"] == 23
        assert device.oracle.errors() == {("cuLaunchKernel", 719): 23}
        (process,) = device.oracle.processes()
        assert process.calls["cuLaunchKernel"].by_code == {0: 280, 719: 23}
        assert device.oracle.truths()[0].launches == 280
        device.control.fail("cuLaunchKernel", 700)
        device.control.heal("cuLaunchKernel")
        (line,) = device.hammer("cuLaunchKernel", 7)
        assert line["failed"] == 0


def test_functions_without_an_implementation_are_counted(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        (line,) = device.hammer("cuTensorMapEncodeTiled", 13)
        assert line["failed"] == 13
        assert device.oracle.errors() == {("cuTensorMapEncodeTiled", 801): 13}


def test_uninitialized(tmp_path: Path) -> None:
    text = """
import ctypes, os
library = ctypes.CDLL(os.environ["GPUGAUGE_SIM_LIBRARY"])
print('{"code": %d}' % library.cuCtxSynchronize())
"""
    with machine(tmp_path) as device:
        assert device.script(text) == [{"code": 3}]
        assert device.oracle.errors() == {("cuCtxSynchronize", 3): 1}


def test_a_hanging_call_is_entered_and_not_ended_even_after_sigkill(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        device.control.hang("cuCtxSynchronize_v2")
        child = device.start(workload_command("training", steps=3))
        with child:
            try:
                while not hung(device, child.pid):
                    assert child.poll() is None
                assert device.oracle.process(child.pid).calls["cuCtxSynchronize_v2"].ended == 0
            finally:
                child.send_signal(signal.SIGKILL)
        found = device.oracle.process(child.pid).calls
    assert found["cuLaunchKernel"].succeeded == 39
    assert (found["cuCtxSynchronize_v2"].entered, found["cuCtxSynchronize_v2"].ended) == (1, 0)


def hung(device, pid: int) -> bool:
    try:
        return "cuCtxSynchronize_v2" in device.oracle.process(pid).calls
    except KeyError:
        return False


def test_a_hanging_call_goes_on_when_healed(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        device.control.hang("cuCtxSynchronize_v2")
        with device.start(workload_command("training", steps=3)) as child:
            while not hung(device, child.pid):
                assert child.poll() is None
            device.control.heal("cuCtxSynchronize_v2")
            out, err = child.communicate()
        assert child.returncode == 0, err
        assert device.oracle.calls([child.pid]) == json.loads(out)["counts"]


def test_killed_processes_leave_the_others_running(tmp_path: Path) -> None:
    """A process that dies with the lock of the state in its hands must not stop the rest."""
    with machine(tmp_path, issue_ns=0, queue_depth=7) as device:
        program = str(device.library.parent / "hammer")
        command = [program, str(device.library), "cuLaunchKernel,cuStreamQuery", "100000000", "2"]
        for _ in range(11):
            with device.start(command) as child:
                while not launched(device, child.pid):
                    assert child.poll() is None
                os.kill(child.pid, signal.SIGKILL)
        (line,) = device.workload("training", steps=5)
        assert device.oracle.calls([line["pid"]]) == Counter(line["counts"])


def launched(device, pid: int) -> bool:
    try:
        return device.oracle.truth(pid).launches > 100
    except (KeyError, OSError):
        return False


def test_arguments_on_the_stack_arrive(tmp_path: Path) -> None:
    """Block z and the stream are the seventh and ninth arguments: both decide the outcome here."""
    text = """
import ctypes, json
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_1us")
def launch(z, stream):
    zero = ctypes.c_void_p(None)
    shape = [ctypes.c_uint(v) for v in (1, 1, 1, 2, 3, z, 0)]
    return driver.attempt("cuLaunchKernel", function, *shape, stream, zero, zero)
good = driver.stream()
wrong = ctypes.c_void_p(driver.context.value)
codes = [launch(5, good), launch(0, good), launch(171, good), launch(5, wrong)]
print(json.dumps({"codes": codes}))
"""
    with machine(tmp_path, "je") as device:
        assert device.script(text) == [{"codes": [0, 1, 1, 400]}]
        assert device.oracle.truths()[0].launch_threads == 30


def test_the_library_says_that_it_is_simulated(tmp_path: Path) -> None:
    text = "import ctypes, os; print(ctypes.CDLL(os.environ['GPUGAUGE_SIM_LIBRARY'])"
    with machine(tmp_path) as device:
        with device.start([sys.executable, "-c", text + ".gpugauge_simulated_driver())"]) as child:
            assert int(child.communicate()[0]) > 0
        assert device.oracle.processes() == []


def test_a_state_of_another_version_is_refused_with_the_next_step(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        device.state.write_bytes(b"\1" * 4096)
        with pytest.raises(RuntimeError, match=r"cannot use the state file .*; remove it"):
            device.workload("training", steps=1)
