"""The function table as a whole: what holds for every row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cuda.bindings import driver

from gpugauge.model import abi
from gpugauge.model.abi import Action, Family, Slot, StreamDefault
from gpugauge.model.function import Function
from gpugauge.vendors import CUDA, VENDORS, Vendor
from gpugauge.vendors.cookie import pack
from tests.unit.test_vendors_exports import EXPORTED

BY_SYMBOL = {row.symbol: row for row in CUDA.functions}


def test_symbols_are_distinct_and_rows_fit_the_cookie() -> None:
    assert len(BY_SYMBOL) == len(CUDA.functions) < abi.LIMIT_ROWS


def test_numbers_are_positions_from_one() -> None:
    assert next(iter(CUDA.numbered())) == (1, CUDA.functions[0])
    assert CUDA.function(1).symbol == "cuLaunchKernel"
    assert CUDA.function(len(CUDA.functions)) is CUDA.functions[-1]


@pytest.mark.parametrize("row", [0, -1, 1023])
def test_there_is_no_row_outside_the_table(row: int) -> None:
    with pytest.raises(IndexError, match="no row"):
        CUDA.function(row)


def test_every_exported_twin_of_a_row_is_a_row() -> None:
    exported = set(EXPORTED)
    missing = [
        row.symbol + suffix
        for row in CUDA.functions
        for suffix in ("_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v2_ptds")
        if row.symbol + suffix in exported and row.symbol + suffix not in BY_SYMBOL
    ]
    assert missing == []


def test_a_per_thread_twin_differs_by_its_default_stream_only() -> None:
    twins = [row for row in CUDA.functions if row.symbol.endswith(("_ptsz", "_ptds"))]
    assert len(twins) == 87
    for twin in twins:
        base = BY_SYMBOL[twin.symbol[:-5]]
        assert replace(twin, symbol=base.symbol, core=base.core) == replace(
            base, stream_default=twin.stream_default
        )
        if base.submits or base.stream_arg:
            assert base.stream_default is StreamDefault.LEGACY
            assert twin.stream_default is StreamDefault.PER_THREAD


def test_core_is_small_and_has_what_perf_mode_needs() -> None:
    core = [row for row in CUDA.functions if row.core]
    assert len(core) <= 40
    assert {row.slot for row in core} >= {
        Slot.LAUNCH,
        Slot.GRAPH_LAUNCH,
        Slot.SYNCHRONIZE,
        Slot.POLL_READY,
        Slot.COPY_HTOD,
        Slot.COPY_DTOH,
        Slot.COPY_DTOD,
        Slot.SET,
        Slot.ALLOCATE,
        Slot.FREE,
        Slot.CONTEXT,
    }
    assert {row.action for row in core} >= {
        Action.CTX_SET,
        Action.PRIMARY_RETAIN,
        Action.DEVICE_UUID_V2,
        Action.CAPTURE_BEGIN,
        Action.CAPTURE_END,
        Action.CHECKPOINT_LOCK,
        Action.CHECKPOINT_UNLOCK,
    }


def test_core_covers_what_real_programs_were_seen_to_call() -> None:
    seen = [
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuGraphLaunch",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuMemcpyHtoD_v2",
        "cuStreamSynchronize",
        "cuCtxSynchronize",
        "cuCtxSynchronize_v2",
        "cuEventSynchronize",
        "cuEventQuery",
        "cuStreamQuery",
        "cuMemsetD8Async",
        "cuMemAlloc_v2",
        "cuMemAllocAsync",
        "cuCtxSetCurrent",
        "cuDevicePrimaryCtxRetain",
    ]
    assert [name for name in seen if not BY_SYMBOL[name].core] == []


def test_hot_rows_are_the_launches() -> None:
    launches = {r.symbol for r in CUDA.functions if r.slot in (Slot.LAUNCH, Slot.GRAPH_LAUNCH)}
    assert {row.symbol for row in CUDA.functions if row.hot} == launches


SUBMITTING = {Slot.LAUNCH, Slot.GRAPH_LAUNCH, Slot.SET, Slot.SUBMIT_OTHER} | {
    slot for slot in Slot if slot.name.startswith("COPY")
}


@pytest.mark.parametrize("row", CUDA.functions, ids=lambda row: row.symbol)
def test_what_submits_and_what_blocks(row: Function) -> None:
    if row.slot in SUBMITTING:
        assert row.submits
    elif row.slot in (Slot.ALLOCATE, Slot.FREE):
        assert row.submits == (row.family is Family.POOL and bool(row.stream_arg))
    else:
        assert not row.submits
    if row.blocks:
        assert row.slot is Slot.SYNCHRONIZE or row.slot.name.startswith("COPY")
    if row.slot is Slot.SYNCHRONIZE:
        assert row.blocks
    # Idle time needs the return of every submission and of every drain.
    if row.submits or row.blocks:
        assert row.returns


def test_synchronous_copies_block_except_between_device_memory() -> None:
    blocking = {row.symbol for row in CUDA.functions if row.blocks and row.slot.name[:4] == "COPY"}
    assert blocking == {
        name + suffix
        for names, suffixes in (
            ("HtoD DtoH HtoA AtoH 2D 2DUnaligned 3D", ("", "_v2", "_v2_ptds")),
            ("|", ("", "_ptds")),
            ("3DPeer", ("", "_ptds")),
        )
        for name in ("cuMemcpy" + part.strip("|") for part in names.split())
        for suffix in suffixes
    }


def test_names_are_rare_and_known_at_return() -> None:
    for symbol in ("cuModuleGetFunction", "cuLibraryGetKernel", "cuKernelGetFunction"):
        row = BY_SYMBOL[symbol]
        assert (row.slot, row.pointer_arg, row.returns) == (Slot.OTHER, 1, True)


@pytest.mark.parametrize(
    ("file_name", "version"),
    [
        ("libcuda.so.1", ""),
        ("libcuda.so", ""),
        ("libcuda.so.580.159.04", "580.159.04"),
        ("libcuda.so.470.256.02", "470.256.02"),
        ("libcuda.so.535.43", "535.43"),
    ],
)
def test_driver_libraries_are_known_by_their_names(file_name: str, version: str) -> None:
    assert CUDA.is_library(file_name)
    assert CUDA.library_version(file_name) == version


@pytest.mark.parametrize(
    "file_name",
    [
        "libcudart.so.13",
        "libcuda.so.2",
        "libcuda.so.1.bak",
        "xlibcuda.so.1",
        "",
        "libcuda.so.1\n",
        "libcudadebugger.so.1",
        "libcuda.so.580.159.04.1",
        "libcuda_so_1",
        "libcuda.so.580",
    ],
)
def test_other_files_are_not(file_name: str) -> None:
    assert not CUDA.is_library(file_name)
    assert CUDA.library_version(file_name) == ""


def test_results_are_those_of_the_bindings() -> None:
    assert dict(CUDA.results) == {int(member): member.name for member in driver.CUresult}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "CUDA_SUCCESS"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (600, "CUDA_ERROR_NOT_READY"),
        (999, "CUDA_ERROR_UNKNOWN"),
        (-1, "other"),
        (1000, "other"),
        (1 << 31, "other"),
    ],
)
def test_a_code_outside_the_results_is_other(code: int, name: str) -> None:
    assert CUDA.result_name(code) == name


def test_vendors_have_names_of_their_own() -> None:
    assert [vendor.name for vendor in VENDORS] == ["cuda"]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_what_holds_for_every_vendor(vendor: Vendor) -> None:
    symbols = [row.symbol for row in vendor.functions]
    assert len(symbols) == len(set(symbols)) < abi.LIMIT_ROWS
    assert all(name.isidentifier() and name.isascii() for name in symbols)
    assert sum(row.core for row in vendor.functions) <= 40
    assert all(row.slot < abi.SLOT_COUNT for row in vendor.functions)
    assert vendor.unknown_symbols(symbols) == ()
    assert vendor.results[0].endswith("SUCCESS")
    assert not vendor.is_library("")
    for number, row in vendor.numbered():
        assert vendor.function(number) is row
        pack(row, number, abi.LIMIT_LINKS - 1)
