"""Which CUDA version each form of a driver function begins with: what cuGetProcAddress needs.

From the typedefs of cudaTypedefs.h as NVIDIA documents them; a form not listed here takes the
default of its suffix.
"""

from __future__ import annotations

import re

DEFAULT = {"": 2000, "_v2": 3020, "_v3": 11040, "_v4": 12050}

SINCE = {
    "cuCtxDestroy_v2": 4000,
    "cuCtxPopCurrent_v2": 4000,
    "cuCtxPushCurrent_v2": 4000,
    "cuStreamDestroy_v2": 4000,
    "cuEventDestroy_v2": 4000,
    "cuTexRefSetAddress2D_v3": 4010,
    "cuMemHostRegister_v2": 6050,
    "cuLinkCreate_v2": 6050,
    "cuLinkAddData_v2": 6050,
    "cuLinkAddFile_v2": 6050,
    "cuGLGetDevices_v2": 6050,
    "cuGraphicsResourceSetMapFlags_v2": 6050,
    "cuStreamBeginCapture_v2": 10010,
    "cuDevicePrimaryCtxRelease_v2": 11000,
    "cuDevicePrimaryCtxReset_v2": 11000,
    "cuDevicePrimaryCtxSetFlags_v2": 11000,
    "cuIpcOpenMemHandle_v2": 11000,
    "cuGraphInstantiate_v2": 11000,
    "cuStreamGetCaptureInfo_v2": 11030,
    "cuDeviceGetUuid_v2": 11040,
    "cuStreamWriteValue32_v2": 11070,
    "cuStreamWriteValue64_v2": 11070,
    "cuStreamWaitValue32_v2": 11070,
    "cuStreamWaitValue64_v2": 11070,
    "cuStreamBatchMemOp_v2": 11070,
    "cuGetProcAddress_v2": 12000,
    "cuGraphExecUpdate_v2": 12000,
    "cuGraphAddKernelNode_v2": 12000,
    "cuGraphKernelNodeGetParams_v2": 12000,
    "cuGraphKernelNodeSetParams_v2": 12000,
    "cuGraphExecKernelNodeSetParams_v2": 12000,
    "cuMemAdvise_v2": 12020,
    "cuMemPrefetchAsync_v2": 12020,
    "cuGraphAddNode_v2": 12030,
    "cuGraphAddDependencies_v2": 12030,
    "cuGraphRemoveDependencies_v2": 12030,
    "cuGraphGetEdges_v2": 12030,
    "cuGraphNodeGetDependencies_v2": 12030,
    "cuGraphNodeGetDependentNodes_v2": 12030,
    "cuStreamGetCaptureInfo_v3": 12030,
    "cuStreamUpdateCaptureDependencies_v2": 12030,
    "cuStreamGetCtx_v2": 12050,
    "cuEventElapsedTime_v2": 12080,
    "cuCtxSynchronize_v2": 13000,
    "cuCtxGetDevice_v2": 13000,
    "cuMemcpyBatchAsync_v2": 13000,
    "cuMemcpy3DBatchAsync_v2": 13000,
    "cuMemGetAttribute_v2": 13000,
}

BEFORE_INIT = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGetExportTable",
}


def split(symbol: str) -> tuple[str, str, bool]:
    """Return (base name, version suffix, per-thread default stream) of an exported name."""
    match = re.fullmatch(r"(\w+?)(_v\d)?(_ptsz|_ptds)?", symbol)
    if match is None:
        raise ValueError(f"{symbol!r} is not an exported name")
    return match[1], match[2] or "", match[3] is not None


def since(symbol: str) -> int:
    """Return the CUDA version (major x 1000 + minor x 10) that this form begins with."""
    base, suffix, _ = split(symbol)
    return SINCE.get(base + suffix, DEFAULT[suffix])
