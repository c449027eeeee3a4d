"""Names that the interpreter calls and the reference knows."""

from __future__ import annotations

LAUNCHES = (
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
)
COPIES = (
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD8Async",
    "cuMemsetD8_v2",
)
FREES = {
    "device": "cuMemFree_v2",
    "host": "cuMemFreeHost",
    "registered": "cuMemHostUnregister",
    "array": "cuArrayDestroy",
}
FAILING = (
    *LAUNCHES,
    *COPIES,
    *FREES.values(),
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemAllocManaged",
    "cuMemAllocHost_v2",
    "cuMemAllocPitch_v2",
    "cuMemHostRegister_v2",
    "cuArrayCreate_v2",
    "cuMemFreeAsync",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuDevicePrimaryCtxRetain",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuCtxSynchronize",
    "cuCtxSynchronize_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamBeginCapture_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
)
