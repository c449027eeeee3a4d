"""Argument positions of the function table, held against NVIDIA's signatures.

cuda-bindings carries the driver API's prototypes as Cython declarations. It has
one name for each function, that of the header without its version suffix,
which the header maps to the newest symbol. Names that only older programs use
are written out below, as the header's typedefs give them.
"""

from __future__ import annotations

import re
from pathlib import Path

import cuda.bindings
import pytest

from gpugauge.model.abi import Action, Size, Slot, StreamDefault
from gpugauge.model.function import Function
from gpugauge.vendors import CUDA
from tests.unit.test_vendors_exports import EXPORTED

PROTOTYPES = Path(next(iter(cuda.bindings.__path__))) / "cydriver.pxd"

# Sizes had 32 bits before CUDA 3.2; `_v1` types are those of that time.
BEFORE_3_2 = """
cuArray3DCreate(CUarray* array, CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor)
cuArrayCreate(CUarray* array, CUDA_ARRAY_DESCRIPTOR_v1* descriptor)
cuGLCtxCreate(CUcontext* context, unsigned int flags, CUdevice device)
cuGLMapBufferObject(CUdeviceptr_v1* pointer, unsigned int* size, GLuint buffer)
cuGLMapBufferObjectAsync(CUdeviceptr_v1* ptr, unsigned int* size, GLuint buffer, CUstream stream)
cuMemAlloc(CUdeviceptr_v1* pointer, unsigned int bytesize)
cuMemAllocHost(void** pointer, unsigned int bytesize)
cuMemAllocPitch(CUdeviceptr_v1* p, unsigned int* pitch, unsigned int w, unsigned int h, unsigned int e)
cuMemFree(CUdeviceptr_v1 pointer)
cuMemcpy2D(CUDA_MEMCPY2D_v1* copy)
cuMemcpy2DAsync(CUDA_MEMCPY2D_v1* copy, CUstream stream)
cuMemcpy2DUnaligned(CUDA_MEMCPY2D_v1* copy)
cuMemcpy3D(CUDA_MEMCPY3D_v1* copy)
cuMemcpy3DAsync(CUDA_MEMCPY3D_v1* copy, CUstream stream)
cuMemcpyAtoA(CUarray d, unsigned int dOffset, CUarray s, unsigned int sOffset, unsigned int ByteCount)
cuMemcpyAtoD(CUdeviceptr_v1 dst, CUarray src, unsigned int srcOffset, unsigned int ByteCount)
cuMemcpyAtoH(void* dst, CUarray src, unsigned int srcOffset, unsigned int ByteCount)
cuMemcpyAtoHAsync(void* d, CUarray s, unsigned int sOffset, unsigned int ByteCount, CUstream stream)
cuMemcpyDtoA(CUarray dst, unsigned int dstOffset, CUdeviceptr_v1 src, unsigned int ByteCount)
cuMemcpyDtoD(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int ByteCount)
cuMemcpyDtoDAsync(CUdeviceptr_v1 d, CUdeviceptr_v1 s, unsigned int ByteCount, CUstream stream)
cuMemcpyDtoH(void* dst, CUdeviceptr_v1 src, unsigned int ByteCount)
cuMemcpyDtoHAsync(void* dst, CUdeviceptr_v1 src, unsigned int ByteCount, CUstream stream)
cuMemcpyHtoA(CUarray dst, unsigned int dstOffset, void* src, unsigned int ByteCount)
cuMemcpyHtoAAsync(CUarray d, unsigned int dOffset, void* s, unsigned int ByteCount, CUstream stream)
cuMemcpyHtoD(CUdeviceptr_v1 dst, void* src, unsigned int ByteCount)
cuMemcpyHtoDAsync(CUdeviceptr_v1 dst, void* src, unsigned int ByteCount, CUstream stream)
cuMemsetD16(CUdeviceptr_v1 dst, unsigned short us, unsigned int N)
cuMemsetD2D16(CUdeviceptr_v1 d, unsigned int p, unsigned short us, unsigned int w, unsigned int h)
cuMemsetD2D32(CUdeviceptr_v1 d, unsigned int p, unsigned int ui, unsigned int w, unsigned int h)
cuMemsetD2D8(CUdeviceptr_v1 d, unsigned int p, unsigned char uc, unsigned int w, unsigned int h)
cuMemsetD32(CUdeviceptr_v1 dst, unsigned int ui, unsigned int N)
cuMemsetD8(CUdeviceptr_v1 dst, unsigned char uc, unsigned int N)
"""  # noqa: E501

# Signatures that changed later, and twins whose newer name is another symbol.
OLDER = """
cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device)
cuCtxDestroy(CUcontext context)
cuCtxPopCurrent(CUcontext* context)
cuCtxPushCurrent(CUcontext context)
cuDeviceGetUuid(CUuuid* uuid, CUdevice device)
cuDevicePrimaryCtxRelease(CUdevice device)
cuDevicePrimaryCtxReset(CUdevice device)
cuEventDestroy(CUevent event)
cuGraphAddKernelNode(CUgraphNode* node, CUgraph g, CUgraphNode* d, size_t n, CUDA_KERNEL_NODE_PARAMS_v1* p)
cuGraphAddNode(CUgraphNode* node, CUgraph graph, CUgraphNode* d, size_t n, CUgraphNodeParams* params)
cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphNode* node, CUgraphExecUpdateResult* result)
cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log, size_t bytes)
cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log, size_t bytes)
cuMemHostRegister(void* pointer, size_t bytesize, unsigned int flags)
cuMemPrefetchAsync(CUdeviceptr pointer, size_t count, CUdevice device, CUstream stream)
cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP* l, size_t* fail, unsigned long long f, CUstream s)
cuMemcpyBatchAsync(CUdeviceptr* d, CUdeviceptr* s, size_t* sizes, size_t count, CUmemcpyAttributes* a, size_t* i, size_t n, size_t* fail, CUstream stream)
cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* p, unsigned int flags)
cuStreamBeginCapture(CUstream stream)
cuStreamDestroy(CUstream stream)
cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
cuVDPAUCtxCreate(CUcontext* context, unsigned int flags, CUdevice device, VdpDevice d, VdpGetProcAddress* g)
"""  # noqa: E501

# The header's name -> its symbol, where that is not the name with a version.
RENAMED = {"cuGraphInstantiate": "cuGraphInstantiateWithFlags"}

Parameters = tuple[tuple[str, str], ...]
"""(type, name) by position."""


def parameters(text: str) -> Parameters:
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(?:const )?(.*?[\s*])(\w+)", part)
        assert match is not None, part
        found.append((match[1].replace(" *", "*").strip(), match[2]))
    return tuple(found)


def by_hand(text: str) -> dict[str, Parameters]:
    found = {}
    for line in filter(None, text.split("\n")):
        match = re.fullmatch(r"(\w+)\((.*)\)", line)
        assert match is not None, line
        found[match[1]] = parameters(match[2])
    return found


def from_bindings() -> dict[str, Parameters]:
    """Return the prototypes by exported symbol: the newest version of each name."""
    text = PROTOTYPES.read_text()
    declared = {
        match[1]: parameters(match[2])
        for match in re.finditer(r"^cdef CUresult (cu\w+)\((.*)\) except", text, re.M)
    }
    symbols = {*EXPORTED, *(row.symbol for row in CUDA.functions)}
    found = {}
    for name, values in declared.items():
        versions = [
            symbol
            for symbol in symbols
            if re.fullmatch(rf"{name}_v\d", symbol) and symbol not in declared
        ]
        found[RENAMED.get(name) or max(versions, default=name)] = values
    return found


BINDINGS = from_bindings()
BY_HAND = by_hand(BEFORE_3_2) | by_hand(OLDER)


def prototype(row: Function) -> Parameters:
    symbol = re.sub(r"_pt[sd][sz]$", "", row.symbol)
    return BY_HAND[symbol] if symbol in BY_HAND else BINDINGS[symbol]


def kind(row: Function, position: int) -> str:
    """Return the type of an argument, positions from 1."""
    return prototype(row)[position - 1][0]


ROWS = pytest.mark.parametrize("row", CUDA.functions, ids=lambda row: row.symbol)


def test_prototypes_were_read() -> None:
    assert len(BINDINGS) > 500
    assert BINDINGS["cuMemcpyHtoDAsync_v2"] == (
        ("CUdeviceptr", "dstDevice"),
        ("void*", "srcHost"),
        ("size_t", "ByteCount"),
        ("CUstream", "hStream"),
    )
    assert [name for _, name in BINDINGS["cuLaunchKernel"]][8] == "hStream"


def test_names_checked_by_hand_are_those_that_bindings_lack() -> None:
    rows = {re.sub(r"_pt[sd][sz]$", "", row.symbol) for row in CUDA.functions}
    assert rows - set(BINDINGS) == set(BY_HAND)
    assert set(BY_HAND) & set(BINDINGS) == set()


@ROWS
def test_the_stream_is_the_only_argument_of_type_stream(row: Function) -> None:
    streams = [i for i, (type_, _) in enumerate(prototype(row), start=1) if type_ == "CUstream"]
    if row.stream_arg == 15:
        assert kind(row, 1) == "CUlaunchConfig*" and streams == []
    else:
        assert streams == ([row.stream_arg] if row.stream_arg else [])


@ROWS
def test_the_default_stream_follows_the_name(row: Function) -> None:
    if row.symbol.endswith(("_ptsz", "_ptds")) and row.stream_default is not StreamDefault.NONE:
        assert row.stream_default is StreamDefault.PER_THREAD
    elif row.stream_arg and row.action is not Action.STREAM_DESTROY:
        assert row.stream_default is StreamDefault.LEGACY
    elif not row.submits:
        assert row.stream_default is StreamDefault.NONE
    elif row.symbol != "cuLaunchCooperativeKernelMultiDevice":
        assert row.stream_default is StreamDefault.LEGACY


BYTES_NAMES = {"ByteCount", "bytesize", "N", "size", "count"}


@ROWS
def test_the_size_is_where_the_row_says(row: Function) -> None:
    size, at = row.size, row.size_arg
    if size is Size.ARG:
        assert prototype(row)[at - 1][0] == "size_t"
        assert prototype(row)[at - 1][1] in BYTES_NAMES
    elif size is Size.ARG32:
        assert prototype(row)[at - 1][0] == "unsigned int"
        assert prototype(row)[at - 1][1] in BYTES_NAMES
    elif size is Size.TWO_ARGS:
        names = [name for type_, name in prototype(row)[at - 1 : at + 1] if type_ == "size_t"]
        assert names == ["Width", "Height"]
    elif size is Size.MEMCPY_2D:
        assert kind(row, at) == "CUDA_MEMCPY2D*"
    elif size is Size.MEMCPY_3D:
        assert kind(row, at) in ("CUDA_MEMCPY3D*", "CUDA_MEMCPY3D_PEER*")
    elif size is Size.LAUNCH_ARGS:
        assert {kind(row, i) for i in range(2, 8)} == {"unsigned int"}
        assert prototype(row)[1][1] == "gridDimX" and prototype(row)[6][1] == "blockDimZ"
    elif size is Size.LAUNCH_CONFIG:
        assert kind(row, at) == "CUlaunchConfig*"
    elif size is Size.PITCH:
        assert (kind(row, 2), kind(row, 4)) == ("size_t*", "size_t")
        assert prototype(row)[3][1] == "Height"
    elif size is Size.ARRAY:
        assert kind(row, at) == "CUDA_ARRAY_DESCRIPTOR*"
    elif size is Size.ARRAY_3D:
        assert kind(row, at) == "CUDA_ARRAY3D_DESCRIPTOR*"
    elif size is Size.BATCH:
        assert (kind(row, at), kind(row, at + 1)) == ("size_t*", "size_t")
    elif size is Size.UNKNOWN:
        old = [type_ for type_, _ in prototype(row) if "_v1" in type_]
        assert old and at == 0
    elif size is Size.BATCH_3D:
        assert any(type_ == "CUDA_MEMCPY3D_BATCH_OP*" for type_, _ in prototype(row))
    else:
        assert size is Size.NONE


@ROWS
def test_sets_know_their_element(row: Function) -> None:
    elements = {"unsigned char": 0, "unsigned short": 1, "unsigned int": 2}
    if row.slot is Slot.SET and row.size is not Size.UNKNOWN:
        value = next(type_ for type_, name in prototype(row) if name in ("uc", "us", "ui"))
        assert row.size_log2 == elements[value]
    else:
        assert row.size_log2 == 0


@ROWS
def test_copies_and_sets_and_allocations_have_a_size(row: Function) -> None:
    sized = {Slot.SET, Slot.ALLOCATE, *(slot for slot in Slot if slot.name.startswith("COPY"))}
    if row.slot in sized:
        assert row.size is not Size.NONE


@ROWS
def test_directions_follow_the_types(row: Function) -> None:
    if row.size not in (Size.ARG, Size.ARG32) or not row.symbol.startswith("cuMemcpy"):
        return
    side = {"void*": "H", "CUdeviceptr": "D", "CUdeviceptr_v1": "D", "CUarray": "D"}
    sides = [side[type_] for type_, _ in prototype(row) if type_ in side]
    expected = {
        ("D", "H"): Slot.COPY_HTOD,
        ("H", "D"): Slot.COPY_DTOH,
        ("D", "D"): Slot.COPY_DTOD,
    }[(sides[0], sides[1])]
    if "Peer" in row.symbol:
        assert row.slot is Slot.COPY_PEER
    elif re.match(r"cuMemcpy(Async|WithAttributes|_|$)", row.symbol):
        # Unified addresses: the types say device, the pointers may be host memory.
        assert row.slot is Slot.COPY_UNKNOWN
    else:
        assert row.slot is expected


@ROWS
def test_an_explicit_context_is_the_first_argument_of_that_type(row: Function) -> None:
    contexts = [i for i, (type_, _) in enumerate(prototype(row), start=1) if type_ == "CUcontext"]
    if row.slot in (Slot.CONTEXT, Slot.OTHER):
        assert row.context_arg == 0
    else:
        assert row.context_arg == (contexts[0] if contexts else 0)


DEVICE_ACTIONS = {
    Action.CTX_CREATE,
    Action.PRIMARY_RETAIN,
    Action.PRIMARY_RELEASE,
    Action.PRIMARY_RESET,
    Action.GREEN_CREATE,
    Action.DEVICE_UUID,
    Action.DEVICE_UUID_V2,
}


@ROWS
def test_the_device_or_the_parameters_are_at_size_arg(row: Function) -> None:
    if row.action in DEVICE_ACTIONS:
        assert row.size is Size.NONE
        assert kind(row, row.size_arg) == "CUdevice"
    elif row.action is Action.GRAPH_ADD_NODE:
        assert row.size is Size.NONE
        assert kind(row, row.size_arg) == "CUgraphNodeParams*"
    elif row.size in (Size.NONE, Size.BATCH_3D, Size.UNKNOWN, Size.LAUNCH_ARGS):
        assert row.size_arg == 0


HANDLES: dict[Action, set[str]] = {
    Action.CTX_SET: {"CUcontext"},
    Action.CTX_PUSH: {"CUcontext"},
    Action.CTX_POP: {"CUcontext*"},
    Action.CTX_CREATE: {"CUcontext*"},
    Action.CTX_DESTROY: {"CUcontext"},
    Action.PRIMARY_RETAIN: {"CUcontext*"},
    Action.GREEN_CREATE: {"CUgreenCtx*"},
    Action.GREEN_DESTROY: {"CUgreenCtx"},
    Action.GREEN_TO_CTX: {"CUcontext*"},
    Action.DEVICE_UUID: {"CUuuid*"},
    Action.DEVICE_UUID_V2: {"CUuuid*"},
    Action.STREAM_CREATE: {"CUstream*"},
    Action.STREAM_CREATE_GREEN: {"CUstream*"},
    Action.STREAM_DESTROY: {"CUstream"},
    Action.EVENT_RECORD: {"CUevent"},
    Action.EVENT_SYNC: {"CUevent"},
    Action.EVENT_QUERY: {"CUevent"},
    Action.EVENT_DESTROY: {"CUevent"},
    Action.CAPTURE_END: {"CUgraph*"},
    Action.GRAPH_CREATE: {"CUgraph*"},
    Action.GRAPH_ADD_LAUNCH: {"CUgraph"},
    Action.GRAPH_ADD_NODE: {"CUgraph"},
    Action.GRAPH_ADD_CHILD: {"CUgraph"},
    Action.GRAPH_ADD_OTHER: {"CUgraph"},
    Action.GRAPH_CLONE: {"CUgraph*"},
    Action.GRAPH_INSTANTIATE: {"CUgraphExec*"},
    Action.GRAPH_DESTROY: {"CUgraph"},
    Action.GRAPH_EXEC_DESTROY: {"CUgraphExec"},
    Action.GRAPH_NODE_DESTROY: {"CUgraphNode"},
    Action.GRAPH_LAUNCH: {"CUgraphExec"},
    Action.ALLOCATE: {"CUdeviceptr*", "void**", "CUarray*", "CUmipmappedArray*"},
    Action.FREE: {"CUdeviceptr", "void*", "CUarray", "CUmipmappedArray"},
    Action.HOST_REGISTER: {"void*"},
    Action.MEM_CREATE: {"CUmemGenericAllocationHandle*"},
    Action.MEM_RELEASE: {"CUmemGenericAllocationHandle"},
    Action.MEM_MAP: {"CUdeviceptr"},
    Action.MEM_UNMAP: {"CUdeviceptr"},
    Action.MEM_RETAIN: {"CUmemGenericAllocationHandle*"},
    Action.MEM_IMPORT: {"CUmemGenericAllocationHandle*"},
}
"""Type of the argument that is, or points to, the handle an action is about."""

WITHOUT_HANDLE = {
    Action.PRIMARY_RELEASE,
    Action.PRIMARY_RESET,
    Action.STREAM_SYNC,
    Action.STREAM_QUERY,
    Action.CTX_SYNC,
    Action.CAPTURE_BEGIN,
    Action.CHECKPOINT_LOCK,
    Action.CHECKPOINT_UNLOCK,
}


@ROWS
def test_the_handle_of_an_action_has_its_type(row: Function) -> None:
    if row.action in HANDLES:
        assert kind(row, row.pointer_arg) in HANDLES[row.action]
    elif row.action is Action.NONE:
        assert not row.pointer_arg or kind(row, row.pointer_arg).startswith("CU")
    else:
        assert row.action in WITHOUT_HANDLE and row.pointer_arg == 0


FIXED: dict[Action, dict[int, str]] = {
    Action.GREEN_TO_CTX: {2: "CUgreenCtx"},
    Action.STREAM_CREATE_GREEN: {2: "CUgreenCtx"},
    Action.GRAPH_CLONE: {2: "CUgraph"},
    Action.GRAPH_INSTANTIATE: {2: "CUgraph"},
    Action.GRAPH_ADD_CHILD: {1: "CUgraphNode*", 5: "CUgraph"},
    Action.GRAPH_ADD_LAUNCH: {1: "CUgraphNode*"},
    Action.GRAPH_ADD_NODE: {1: "CUgraphNode*"},
    Action.GRAPH_ADD_OTHER: {1: "CUgraphNode*"},
    Action.MEM_MAP: {2: "size_t", 4: "CUmemGenericAllocationHandle"},
    Action.MEM_UNMAP: {2: "size_t"},
    Action.MEM_RETAIN: {2: "void*"},
    Action.CHECKPOINT_LOCK: {1: "int"},
    Action.CHECKPOINT_UNLOCK: {1: "int"},
}
"""Positions that the BPF programs take for granted: the comments of enum action."""


@ROWS
def test_fixed_positions_of_actions_hold(row: Function) -> None:
    for position, type_ in FIXED.get(row.action, {}).items():
        assert kind(row, position) == type_


def test_every_action_is_used_and_checked() -> None:
    used = {row.action for row in CUDA.functions}
    assert used == set(Action)
    assert used - {Action.NONE} == set(HANDLES) | WITHOUT_HANDLE
