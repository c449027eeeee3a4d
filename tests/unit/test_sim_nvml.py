"""The simulated NVML, asked by NVIDIA's own binding."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sim.machine import machine, workload_command

PRELUDE = """
import json
import pynvml as n
def show(**values): print(json.dumps(values), flush=True)
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
def processes(of):
    return [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(of)]
"""


def test_what_devices_are(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
rows = []
for index in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(index)
    uuid = n.nvmlDeviceGetUUID(h)
    same = n.nvmlDeviceGetHandleByUUID(uuid)
    assert n.nvmlDeviceGetMinorNumber(same) == index
    v1, v2 = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
    rows.append([uuid, n.nvmlDeviceGetName(h), n.nvmlDeviceGetPciInfo(h).busId,
                 n.nvmlDeviceGetMinorNumber(h), n.nvmlDeviceGetComputeMode(h),
                 n.nvmlDeviceGetMigMode(h), v1.total, v1.used, v2.used, v2.reserved])
show(driver=n.nvmlSystemGetDriverVersion(), cuda=n.nvmlSystemGetCudaDriverVersion_v2(), rows=rows)
show(other=[len(n.nvmlDeviceGetGraphicsRunningProcesses(handle)),
            len(n.nvmlDeviceGetMPSComputeRunningProcesses(handle))])
"""
    )
    with machine(tmp_path, device_count=2, device_bytes=10**9, reserved_bytes=10**6) as device:
        first, second = device.script(text)
        uuids = [each.uuid for each in device.oracle.devices()]
    assert first["cuda"] == 13000
    assert "simulated" in first["driver"]
    rest = [0, [0, 0], 10**9, 10**6, 0, 10**6]
    assert first["rows"] == [
        [uuids[0], "Simulated GPU", "00000000:10:00.0", 0, *rest],
        [uuids[1], "Simulated GPU", "00000000:11:00.0", 1, *rest],
    ]
    assert second == {"other": [0, 0]}


def test_processes_and_what_they_hold(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        command = workload_command("training", steps=100_000, stall_us=1000)
        with device.start(command) as one, device.start(command) as other:
            try:
                for child in (one, other):
                    while not device.oracle.calls([child.pid])["cuLaunchKernel"]:
                        assert child.poll() is None
                (line,) = device.script(PRELUDE + "show(found=processes(handle))")
                held = {pid: device.oracle.truth(pid).held_bytes for pid in (one.pid, other.pid)}
                assert dict(line["found"]) == held
                one.send_signal(signal.SIGKILL)
                one.wait()
                (line,) = device.script(PRELUDE + "show(found=processes(handle))")
                assert line["found"] == [[other.pid, held[other.pid]]]
                device.control.configure(nvml_no_memory=1)
                (line,) = device.script(PRELUDE + "show(found=processes(handle))")
                assert line["found"] == [[other.pid, None]]
            finally:
                one.kill()
                other.kill()


def test_a_process_sees_itself(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
import os
from sim.workloads.driver import Driver
driver = Driver()
driver.launch(driver.function("busy_200ms"))
n.nvmlDeviceGetUtilizationRates(handle)
driver.drain()
busy = n.nvmlDeviceGetUtilizationRates(handle).gpu > 0
show(own=processes(handle)[0][0] == os.getpid(), busy=busy)
"""
    )
    with machine(tmp_path) as device:
        assert device.script(text) == [{"own": True, "busy": True}]


def test_instances(tmp_path: Path) -> None:
    text = (
        PRELUDE
        + """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["INSTANCE"]
from sim.workloads.driver import Driver
driver = Driver()
found = []
for index in range(n.nvmlDeviceGetMaxMigDeviceCount(handle)):
    try:
        part = n.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
    except n.NVMLError_NotFound:
        continue
    number = n.nvmlDeviceGetGpuInstanceId(part)
    found.append([n.nvmlDeviceGetUUID(part), number, len(processes(part))])
show(mode=n.nvmlDeviceGetMigMode(handle), found=found, whole=len(processes(handle)))
"""
    )
    with machine(tmp_path, mig_instances=3) as device:
        uuids = [each.uuid for each in device.oracle.devices()]
        (line,) = device.script(text, extra={"INSTANCE": uuids[1]})
    assert line == {
        "mode": [1, 1],
        "found": [[uuids[0], 1, 0], [uuids[1], 2, 1], [uuids[2], 3, 0]],
        "whole": 1,
    }


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("nvml_vanished", 1, "NVMLError_Uninitialized"),
        ("nvml_code", 15, "NVMLError_GpuIsLost"),
        ("nvml_code", 999, "NVMLError_Unknown"),
    ],
)
def test_failures(tmp_path: Path, setting: str, value: int, name: str) -> None:
    text = (
        PRELUDE
        + """
show(ready=1)
input()
try:
    n.nvmlDeviceGetUUID(handle)
    show(error=None)
except n.NVMLError as error:
    show(error=type(error).__name__)
"""
    )
    with machine(tmp_path) as device:
        child = device.start([sys.executable, "-c", text], stdin=subprocess.PIPE)
        with child:
            assert child.stdout.readline()
            device.control.configure(**{setting: value})
            out, err = child.communicate("\n")
    assert json.loads(out) == {"error": name}, err


def test_a_hang_ends_when_it_is_switched_off(tmp_path: Path) -> None:
    text = PRELUDE + "show(ready=1)\ninput()\nshow(name=n.nvmlDeviceGetName(handle))"
    with machine(tmp_path) as device:
        child = device.start([sys.executable, "-c", text], stdin=subprocess.PIPE)
        with child:
            assert child.stdout.readline()
            device.control.configure(nvml_hang=1)
            child.stdin.write("\n")
            child.stdin.flush()
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.3)
            device.control.configure(nvml_hang=0)
            out, err = child.communicate()
    assert json.loads(out) == {"name": "Simulated GPU"}, err


def test_a_lie_about_the_number_of_processes(tmp_path: Path) -> None:
    with machine(tmp_path, nvml_process_count=100_003) as device:
        (line,) = device.script(PRELUDE + "show(count=len(processes(handle)))")
    assert line == {"count": 100_003}


def test_a_missing_state_is_made(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        extra = {"GPUGAUGE_SIM_STATE": str(tmp_path / "other"), "GPUGAUGE_SIM_DEVICE_COUNT": "5"}
        (line,) = device.script(PRELUDE + "show(count=n.nvmlDeviceGetCount())", extra=extra)
    assert line == {"count": 5}


def test_no_state_possible(tmp_path: Path) -> None:
    with machine(tmp_path) as device:
        extra = {"GPUGAUGE_SIM_STATE": str(tmp_path / "no" / "folder")}
        with pytest.raises(RuntimeError, match="NVMLError_DriverNotLoaded"):
            device.script(PRELUDE, extra=extra)
