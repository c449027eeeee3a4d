"""Clients nobody here wrote run on the simulated driver, and the oracle sees what they do."""

from pathlib import Path

import pytest

from sim.machine import machine

BINDINGS = """
import ctypes, json
from cuda.bindings import driver as d

def ok(answer):
    assert answer[0] == d.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]

ok(d.cuInit(0))
device = ok(d.cuDeviceGet(0))
context = ok(d.cuDevicePrimaryCtxRetain(device))
ok(d.cuCtxSetCurrent(context))
sent, back = (ctypes.c_ubyte * 1009)(*(n % 251 for n in range(1009))), (ctypes.c_ubyte * 1009)()
memory = ok(d.cuMemAlloc(1009))
ok(d.cuMemcpyHtoD(memory, ctypes.addressof(sent), 1009))
stream = ok(d.cuStreamCreate(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
module = ok(d.cuModuleLoadData(b"simulated"))
function = ok(d.cuModuleGetFunction(module, b"busy_5us"))
for _ in range(23):
    ok(d.cuLaunchKernel(function, 3, 1, 1, 32, 2, 1, 0, stream, 0, 0))
config = d.CUlaunchConfig()
config.gridDimX = config.gridDimY = config.gridDimZ = 1
config.blockDimX, config.blockDimY, config.blockDimZ = 7, 1, 1
config.hStream = stream
for _ in range(11):
    ok(d.cuLaunchKernelEx(config, function, 0, 0))
ok(d.cuStreamSynchronize(stream))
ok(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
for _ in range(5):
    ok(d.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
graph = ok(d.cuStreamEndCapture(stream))
executable = ok(d.cuGraphInstantiate(graph, 0))
for _ in range(13):
    ok(d.cuGraphLaunch(executable, stream))
ok(d.cuStreamSynchronize(stream))
ok(d.cuMemcpyDtoH(ctypes.addressof(back), memory, 1009))
ok(d.cuMemFree(memory))
ok(d.cuCtxSynchronize())
uuid = bytes(ok(d.cuDeviceGetUuid(device)).bytes).hex()
print(json.dumps({"same": bytes(sent) == bytes(back), "uuid": uuid}))
"""

NUMBA = """
import json, warnings
import numpy as np
from numba import cuda

warnings.simplefilter("ignore")

@cuda.jit
def busy(cells):
    cells[cuda.grid(1)] += 1

sent = np.arange(512, dtype=np.int32)
cells = cuda.to_device(sent)
for _ in range(101):
    busy[4, 128](cells)
cuda.synchronize()
print(json.dumps({"same": bool((cells.copy_to_host() == sent).all())}))
"""


@pytest.mark.parametrize("shape", ["push", "je"])
def test_cuda_bindings(tmp_path: Path, shape: str) -> None:
    with machine(tmp_path, shape) as device:
        (line,) = device.script(BINDINGS)
        calls = device.oracle.calls()
        (row,) = device.oracle.truths()
        (real,) = device.oracle.devices()
    assert line["same"]
    assert line["uuid"] == real.uuid.removeprefix("GPU-").replace("-", "")
    assert calls["cuLaunchKernel"] == 23 + 5
    assert calls["cuLaunchKernelEx"] == 11
    assert calls["cuGraphLaunch"] == 13
    assert calls["cuStreamSynchronize"] == 2
    assert (row.launches, row.captured, row.graph_nodes) == (34, 5, 65)
    assert row.launch_threads == 23 * 3 * 64 + 11 * 7
    assert (row.bytes_htod, row.bytes_dtoh, row.requested["device"]) == (1009, 1009, 0)
    # The binding also asks for functions that are newer than this driver: the only errors.
    assert set(device.oracle.errors()) == {("cuGetProcAddress_v2", 500)}


def test_numba_cuda(tmp_path: Path) -> None:
    """A real compiler makes the code, and nothing is computed: what came back is what was sent."""
    with machine(tmp_path) as device:
        (line,) = device.script(NUMBA)
        calls = device.oracle.calls()
        (row,) = device.oracle.truths()
    assert line["same"]
    assert calls["cuLaunchKernel"] + calls["cuLaunchKernelEx"] == 101 == row.launches
    assert row.launch_threads == 101 * 512
    assert (row.bytes_htod, row.bytes_dtoh) == (2048, 2048)
