"""Records of perf, taken apart: exact ones, cut ones, any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.ebpf.sideband_record import parse
from gpugauge.errors import ForeignDataError
from gpugauge.model.library import FileId
from gpugauge.model.sideband import (
    CommandSet,
    FileMapped,
    SidebandRecord,
    TaskEnded,
    TaskStarted,
)


def record(kind: int, body: bytes, time_ns: int | None, misc: int = 0) -> bytes:
    body += bytes(-len(body) % 8)
    if time_ns is not None:
        body += struct.pack("<Q", time_ns)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def mapped(path: bytes, time_ns: int = 5, misc: int = 0) -> bytes:
    fixed = struct.pack("<IIQQQIIQQII", 11, 13, 0x7F00, 4096, 8192, 8, 1, 1234, 7, 5, 2)
    return record(10, fixed + path + b"\0", time_ns, misc)


def taken(data: bytes, **options: object) -> tuple[list[SidebandRecord], int, int]:
    records: list[SidebandRecord] = []
    used, lost = parse(
        data,
        options.get("most", 1000),  # type: ignore[arg-type]
        options.get("wanted"),  # type: ignore[arg-type]
        records,
    )
    return records, used, lost


def test_each_kind_is_read() -> None:
    data = (
        mapped(b"/usr/lib/libcuda.so.1")
        + record(3, struct.pack("<II", 11, 13) + b"python\0", 6, misc=1 << 13)
        + record(7, struct.pack("<IIIIQ", 17, 11, 17, 11, 7), None)
        + record(4, struct.pack("<IIIIQ", 17, 11, 19, 11, 8), None)
        + record(2, struct.pack("<QQ", 1, 23), None)
        + record(13, struct.pack("<Q", 5), None)
        + record(99, b"unknown", 9)
    )
    records, used, lost = taken(data)
    assert records == [
        FileMapped(
            5, 11, 13, FileId(8, 1, 1234), 7, "/usr/lib/libcuda.so.1", 0x7F00, 4096, 8192, 5
        ),
        CommandSet(6, 11, 13, "python", True),
        TaskStarted(7, 17, 17, 11),
        TaskEnded(8, 17, 19, 11),
    ]
    assert used == len(data)
    assert lost == 28


def test_starts_and_ends_nobody_asked_for_are_skipped() -> None:
    data = record(7, struct.pack("<IIIIQ", 17, 11, 17, 11, 7), None) + mapped(b"/a")
    records: list[SidebandRecord] = []
    assert parse(data, 10, None, records, tasks=False) == (len(data), 0)
    assert [type(each) for each in records] == [FileMapped]


def test_unwanted_files_are_skipped_by_their_raw_path() -> None:
    data = mapped(b"/a/\xff\xfe") + mapped(b"/b/libcuda.so")
    records, used, _ = taken(data, wanted=lambda path: path.startswith(b"/b"))
    assert [each.path for each in records if isinstance(each, FileMapped)] == ["/b/libcuda.so"]
    assert used == len(data)


def test_a_path_that_is_no_text_comes_back_as_the_same_bytes() -> None:
    (found,) = taken(mapped(b"/a/\xff\n\x1b[31m"))[0]
    assert isinstance(found, FileMapped)
    assert found.path.encode("utf-8", "surrogateescape") == b"/a/\xff\n\x1b[31m"


def test_a_build_id_in_place_of_the_file_is_not_taken_for_an_inode() -> None:
    assert taken(mapped(b"/a", misc=1 << 14))[0] == []


def test_the_limit_stops_between_records() -> None:
    one = mapped(b"/a")
    records, used, _ = taken(one * 5, most=3)
    assert len(records) == 3
    assert used == 3 * len(one)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<IHH", 10, 0, 0),
        struct.pack("<IHH", 10, 0, 7),
        struct.pack("<IHH", 10, 0, 64),
        struct.pack("<IHH", 10, 0, 8),
        record(4, b"\1\2\3\4", None),
    ],
)
def test_what_does_not_fit_is_told(data: bytes) -> None:
    with pytest.raises(ForeignDataError):
        taken(data)


@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_told(data: bytes) -> None:
    for whole in (data, mapped(b"/a") + data, struct.pack("<IHH", 10, 0, 8 + len(data)) + data):
        try:
            taken(whole)
        except ForeignDataError:
            continue
