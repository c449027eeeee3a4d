"""Every name that driver 580.159.04 exports has a row, or a reason for having none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpugauge.vendors import CUDA

EXPORTED = (
    (Path(__file__).parent.parent / "data" / "libcuda-580.159.04.symbols.txt").read_text().split()
)
UNTRACED: dict[str, str] = {
    "called by runtimes at every step: never probed continuously": """
        cuCtxGetCurrent cuCtxGetDevice cuCtxGetDevice_v2 cuDeviceGetAttribute
        cuDevicePrimaryCtxGetState
    """,
    "order streams, put no work into one; an event keeps its older ticket, never a false idle": """
        cuCtxRecordEvent cuCtxWaitEvent cuGreenCtxRecordEvent cuGreenCtxWaitEvent
        cuStreamWaitEvent cuStreamWaitEvent_ptsz
    """,
    "usage counts of contexts from before CUDA 4.0": """
        cuCtxAttach cuCtxDetach
    """,
    "memory of other owners, not requested by this process": """
        cuDestroyExternalMemory cuDestroyExternalSemaphore cuExternalMemoryGetMappedBuffer
        cuExternalMemoryGetMappedMipmappedArray cuImportExternalMemory
        cuImportExternalSemaphore cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle
        cuIpcOpenEventHandle cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
        cuMemExportToShareableHandle cuMemPoolExportPointer cuMemPoolExportToShareableHandle
        cuMemPoolImportFromShareableHandle cuMemPoolImportPointer cuMulticastAddDevice
        cuMulticastBindAddr cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity
        cuMulticastUnbind
    """,
    "address space and access rights: no memory": """
        cuMemAddressFree cuMemAddressReserve cuMemAdvise cuMemAdvise_v2 cuMemSetAccess
    """,
    "pools: their memory is counted when it is allocated": """
        cuDeviceGraphMemTrim cuDeviceSetGraphMemAttribute cuDeviceSetMemPool cuMemPoolCreate
        cuMemPoolDestroy cuMemPoolGetAccess cuMemPoolGetAttribute cuMemPoolSetAccess
        cuMemPoolSetAttribute cuMemPoolTrimTo cuMemSetMemPool
    """,
    "a disabled node of a graph is still counted: nodes of executables are not followed": """
        cuGraphNodeSetEnabled
    """,
    "change a node or an edge, not how many launches there are": """
        cuGraphAddDependencies cuGraphAddDependencies_v2 cuGraphBatchMemOpNodeSetParams
        cuGraphConditionalHandleCreate cuGraphEventRecordNodeSetEvent
        cuGraphEventWaitNodeSetEvent cuGraphExecBatchMemOpNodeSetParams
        cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent
        cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
        cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecHostNodeSetParams
        cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
        cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams
        cuGraphExecNodeSetParams cuGraphExternalSemaphoresSignalNodeSetParams
        cuGraphExternalSemaphoresWaitNodeSetParams cuGraphHostNodeSetParams
        cuGraphKernelNodeCopyAttributes cuGraphKernelNodeSetAttribute
        cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2 cuGraphMemcpyNodeSetParams
        cuGraphMemsetNodeSetParams cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
        cuGraphNodeSetParams cuGraphReleaseUserObject cuGraphRemoveDependencies
        cuGraphRemoveDependencies_v2 cuGraphRetainUserObject
        cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_ptsz
        cuStreamUpdateCaptureDependencies_v2 cuStreamUpdateCaptureDependencies_v2_ptsz
        cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain
    """,
    "graphics interoperability without a CUDA stream": """
        cuEGLApiInit cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect
        cuEGLStreamConsumerConnectWithFlags cuEGLStreamConsumerDisconnect
        cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
        cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame
        cuEGLStreamProducerReturnFrame cuGLInit cuGLRegisterBufferObject
        cuGLSetBufferObjectMapFlags cuGLUnregisterBufferObject cuGraphicsEGLRegisterImage
        cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage
        cuGraphicsResourceGetMappedEglFrame cuGraphicsResourceGetMappedMipmappedArray
        cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2
        cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
        cuGraphicsSubResourceGetMappedArray cuGraphicsUnregisterResource
        cuGraphicsVDPAURegisterOutputSurface cuGraphicsVDPAURegisterVideoSurface
    """,
    "textures, surfaces and tensor maps: descriptions of memory": """
        cuSurfObjectCreate cuSurfObjectDestroy cuSurfObjectGetResourceDesc cuSurfRefGetArray
        cuSurfRefSetArray cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide
        cuTensorMapEncodeTiled cuTensorMapReplaceAddress cuTexObjectCreate
        cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc
        cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy cuTexRefGetAddress
        cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor
        cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
        cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
        cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress2D
        cuTexRefSetAddress2D_v2 cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
        cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode
        cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
        cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp
        cuTexRefSetMipmappedArray
    """,
    "load, link and unload code; the names of its functions are asked for by traced names": """
        cuFuncGetAttribute cuFuncGetModule cuFuncGetName cuFuncGetParamInfo cuFuncIsLoaded
        cuFuncLoad cuFuncSetAttribute cuFuncSetBlockShape cuFuncSetCacheConfig
        cuFuncSetSharedMemConfig cuFuncSetSharedSize cuKernelGetAttribute cuKernelGetLibrary
        cuKernelGetName cuKernelGetParamInfo cuKernelSetAttribute cuKernelSetCacheConfig
        cuLibraryEnumerateKernels cuLibraryGetGlobal cuLibraryGetKernelCount
        cuLibraryGetManaged cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData
        cuLibraryLoadFromFile cuLibraryUnload cuLinkAddData cuLinkAddData_v2 cuLinkAddFile
        cuLinkAddFile_v2 cuLinkComplete cuLinkCreate cuLinkCreate_v2 cuLinkDestroy
        cuModuleEnumerateFunctions cuModuleGetFunctionCount cuModuleGetGlobal
        cuModuleGetGlobal_v2 cuModuleGetLoadingMode cuModuleGetSurfRef cuModuleGetTexRef
        cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary
        cuModuleUnload cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv
    """,
    "settings of a context, a stream, a device or a thread": """
        cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxResetPersistingL2Cache
        cuCtxSetCacheConfig cuCtxSetFlags cuCtxSetLimit cuCtxSetSharedMemConfig
        cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2 cuFlushGPUDirectRDMAWrites
        cuPointerSetAttribute cuStreamCopyAttributes cuStreamCopyAttributes_ptsz
        cuStreamSetAttribute cuStreamSetAttribute_ptsz cuThreadExchangeStreamCaptureMode
    """,
    "after the lock, before the unlock: the probes are off": """
        cuCheckpointProcessCheckpoint cuCheckpointProcessRestore
    """,
    "an event before it is recorded": """
        cuEventCreate
    """,
    "initialization, look-up and tools": """
        cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute
        cuCoredumpSetAttributeGlobal cuDeviceRegisterAsyncNotification
        cuDeviceUnregisterAsyncNotification cuGetExportTable cuGetProcAddress
        cuGetProcAddress_v2 cuInit cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory
        cuLogsRegisterCallback cuLogsUnregisterCallback cuProfilerInitialize cuProfilerStart
        cuProfilerStop
    """,
    "answers a question, changes nothing": """
        cuArray3DGetDescriptor cuArray3DGetDescriptor_v2 cuArrayGetDescriptor
        cuArrayGetDescriptor_v2 cuArrayGetMemoryRequirements cuArrayGetPlane
        cuArrayGetSparseProperties cuCheckpointProcessGetRestoreThreadId
        cuCheckpointProcessGetState cuCtxGetApiVersion cuCtxGetCacheConfig
        cuCtxGetDevResource cuCtxGetExecAffinity cuCtxGetFlags cuCtxGetId cuCtxGetLimit
        cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuDevResourceGenerateDesc
        cuDevSmResourceSplitByCount cuDeviceCanAccessPeer cuDeviceComputeCapability
        cuDeviceGet cuDeviceGetByPCIBusId cuDeviceGetCount cuDeviceGetDefaultMemPool
        cuDeviceGetDevResource cuDeviceGetExecAffinitySupport cuDeviceGetGraphMemAttribute
        cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetMemPool cuDeviceGetName
        cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities
        cuDeviceGetP2PAttribute cuDeviceGetPCIBusId cuDeviceGetProperties
        cuDeviceGetTexture1DLinearMaxWidth cuDeviceTotalMem cuDeviceTotalMem_v2
        cuDriverGetVersion cuEventElapsedTime cuEventElapsedTime_v2 cuGLGetDevices
        cuGLGetDevices_v2 cuGetErrorName cuGetErrorString cuGraphBatchMemOpNodeGetParams
        cuGraphChildGraphNodeGetGraph cuGraphDebugDotPrint cuGraphEventRecordNodeGetEvent
        cuGraphEventWaitNodeGetEvent cuGraphExecGetFlags
        cuGraphExternalSemaphoresSignalNodeGetParams
        cuGraphExternalSemaphoresWaitNodeGetParams cuGraphGetEdges cuGraphGetEdges_v2
        cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
        cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams
        cuGraphKernelNodeGetParams_v2 cuGraphMemAllocNodeGetParams
        cuGraphMemFreeNodeGetParams cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams
        cuGraphNodeFindInClone cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2
        cuGraphNodeGetEnabled cuGraphNodeGetType cuGreenCtxGetDevResource cuGreenCtxGetId
        cuMemGetAccess cuMemGetAddressRange cuMemGetAddressRange_v2
        cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle
        cuMemGetAttribute cuMemGetAttribute_v2 cuMemGetDefaultMemPool
        cuMemGetHandleForAddressRange cuMemGetInfo cuMemGetInfo_v2 cuMemGetMemPool
        cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2 cuMemHostGetFlags
        cuMemRangeGetAttribute cuMemRangeGetAttributes cuMipmappedArrayGetLevel
        cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties
        cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
        cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
        cuOccupancyMaxPotentialClusterSize cuPointerGetAttribute cuPointerGetAttributes
        cuStreamGetAttribute cuStreamGetAttribute_ptsz cuStreamGetCaptureInfo
        cuStreamGetCaptureInfo_ptsz cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v2_ptsz
        cuStreamGetCaptureInfo_v3 cuStreamGetCaptureInfo_v3_ptsz cuStreamGetCtx
        cuStreamGetCtx_ptsz cuStreamGetCtx_v2 cuStreamGetCtx_v2_ptsz cuStreamGetDevice
        cuStreamGetDevice_ptsz cuStreamGetFlags cuStreamGetFlags_ptsz cuStreamGetGreenCtx
        cuStreamGetId cuStreamGetId_ptsz cuStreamGetPriority cuStreamGetPriority_ptsz
        cuStreamIsCapturing cuStreamIsCapturing_ptsz cuVDPAUGetDevice
    """,
}

NEWER = {
    "cuGraphAddNode_v3": "13.4",
    "cuLaunchHostFunc_v2": "13.1",
    "cuMemcpy3DWithAttributesAsync": "13.2",
    "cuMemcpyWithAttributesAsync": "13.2",
    "cuStreamBeginRecaptureToGraph": "13.3",
}
"""Rows that 580 does not export yet: name -> CUDA version of the header that has it."""


def untraced() -> list[str]:
    return [name for names in UNTRACED.values() for name in names.split()]


def test_exported_names_are_674_and_distinct() -> None:
    assert len(EXPORTED) == len(set(EXPORTED)) == 674


def test_every_exported_name_has_a_row_or_a_reason() -> None:
    rows = {row.symbol for row in CUDA.functions}
    assert sorted(set(EXPORTED) - rows) == sorted(untraced())


def test_no_name_has_two_reasons() -> None:
    assert len(untraced()) == len(set(untraced()))


def test_rows_that_580_does_not_export_are_newer_names() -> None:
    extra = {row.symbol for row in CUDA.functions} - set(EXPORTED)
    assert {name.removesuffix("_ptsz") for name in extra} == set(NEWER)


@pytest.mark.parametrize(
    "symbol",
    [
        "cuCtxGetDevice",
        "cuCtxGetDevice_v2",
        "cuDevicePrimaryCtxGetState",
        "cuCtxGetCurrent",
        "cuDeviceGetAttribute",
    ],
)
def test_what_runtimes_call_at_every_step_is_never_traced(symbol: str) -> None:
    assert symbol in EXPORTED
    assert symbol not in {row.symbol for row in CUDA.functions}


def test_names_of_this_driver_raise_no_alarm() -> None:
    assert CUDA.unknown_symbols(EXPORTED) == ()


def test_unknown_names_of_watched_families_are_reported_sorted() -> None:
    new = ["cuMemcpyHtoDAsync_v3", "cuLaunchKernelEx2", "cuCtxSynchronize_v3_ptsz", "cuFutureQuery"]
    harmless = ["cuCtxGetLimit_v2", "cuDeviceGetUuid_v3", "cuTexObjectCreate_v2", "nvMemcpy"]
    assert CUDA.unknown_symbols([*EXPORTED, *new, *harmless, *new]) == tuple(sorted(new))


def test_names_left_out_on_purpose_raise_no_alarm() -> None:
    assert CUDA.unknown_symbols(CUDA.watched_known) == ()
    assert CUDA.watched_known.isdisjoint(row.symbol for row in CUDA.functions)


@pytest.mark.parametrize(
    "family",
    ["launch", "graph launch", "synchronize", "poll", "copy", "set", "allocate", "free"],
)
def test_each_row_of_a_watched_family_would_be_reported_without_its_row(family: str) -> None:
    from gpugauge.vendors.text import operation_text

    symbols = [r.symbol for r in CUDA.functions if operation_text(r).split(" htod")[0] == family]
    if family == "copy":
        symbols = [r.symbol for r in CUDA.functions if operation_text(r).startswith("copy")]
    assert symbols
    bare = type(CUDA)(
        name="bare",
        library_patterns=(),
        functions=(),
        watched=CUDA.watched,
        watched_known=frozenset(),
        results={},
    )
    assert bare.unknown_symbols(symbols) == tuple(sorted(symbols))
