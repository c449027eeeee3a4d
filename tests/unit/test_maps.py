"""The parser of /proc/PID/maps."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.discovery import maps
from gpugauge.discovery.maps import LibraryNames, Mapping, parse_line, read_mappings
from gpugauge.errors import ForeignDataError
from gpugauge.model.library import FileId
from gpugauge.vendors import CUDA

NAMES = LibraryNames(CUDA.library_patterns)
LINE = (
    b"7f2d5c000000-7f2d5d000000 r-xp 00020000 103:0a 1847229"
    b"                    /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"
)


def read(text: bytes) -> tuple[Mapping, ...]:
    return read_mappings(io.BytesIO(text).read, NAMES)


def test_a_line_gives_device_inode_range_and_path() -> None:
    mapping = parse_line(LINE)
    assert mapping == Mapping(
        FileId(0x103, 0x0A, 1847229),
        0x7F2D5C000000,
        0x7F2D5D000000,
        "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
        deleted=False,
    )
    assert mapping.map_files_name == "7f2d5c000000-7f2d5d000000"


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace(b"r-xp", b"r--p"),
        b"7ffc1000-7ffc2000 r-xp 00000000 00:00 0                          [vdso]",
        b"7ffc1000-7ffc2000 rwxp 00000000 00:00 0 ",
        b"nonsense",
        b"",
        LINE.replace(b"103:0a", b"103-0a"),
    ],
)
def test_other_lines_give_nothing(line: bytes) -> None:
    assert parse_line(line) is None


def test_deleted_files_are_marked_and_keep_their_name() -> None:
    (mapping,) = read(LINE + b" (deleted)\n")
    assert mapping.deleted
    assert mapping.path.endswith("/libcuda.so.580.159.04")


def test_an_escaped_newline_in_a_folder_is_undone() -> None:
    (mapping,) = read(b"1000-2000 r-xp 0 08:01 7 /a\\012b/libcuda.so.1\n")
    assert mapping.path == "/a\nb/libcuda.so.1"


def test_bytes_outside_utf8_survive() -> None:
    (mapping,) = read(b"1000-2000 r-xp 0 08:01 7 /\xff\xfe/libcuda.so.1\n")
    assert mapping.path.encode("utf-8", "surrogateescape") == b"/\xff\xfe/libcuda.so.1"


@pytest.mark.parametrize(
    ("path", "is_library"),
    [
        (b"/usr/lib/libcuda.so", True),
        (b"/usr/lib/libcuda.so.1", True),
        (b"/usr/local/cuda/compat/libcuda.so.535.54.03", True),
        (b"/usr/lib/libcudart.so.12", False),
        (b"/usr/lib/libcuda.so.1.bak", False),
        (b"/usr/lib/notlibcuda.so.1", False),
        (b"/usr/lib/libcuda.so.1/other.so", False),
        (b"/usr/lib/libcuda.so.", False),
        (b"", False),
    ],
)
def test_names_of_the_library(path: bytes, is_library: bool) -> None:
    assert NAMES.match(path) is is_library
    if path:
        assert bool(read(b"1000-2000 r-xp 0 08:01 7 " + path + b"\n")) is is_library


def test_a_line_across_two_chunks_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (b"1000-2000 r-xp 0 08:01 9 /bin/sh\n" + LINE + b"\n") * 7
    whole = read(text)
    assert len(whole) == 7
    for size in (1, 13, 101):
        monkeypatch.setattr(maps, "CHUNK_BYTES", size)
        assert read(text) == whole


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read((LINE + b"\n") * 1009)) == maps.MAPPINGS_LIMIT
    monkeypatch.setattr(maps, "MAPS_LIMIT_BYTES", len(LINE))
    with pytest.raises(ForeignDataError, match="longer than"):
        read(LINE + b"\n")


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(text: bytes) -> None:
    for mapping in read(text):
        assert NAMES.match(mapping.path.encode("utf-8", "surrogateescape"))
    parse_line(text)


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**20),
    st.integers(0, 2**20),
    st.integers(1, 2**64 - 1),
    st.binary(max_size=60).filter(lambda raw: not set(raw) & set(b"\n/\\")),
)
def test_what_linux_writes_is_read_back(
    start: int, major: int, minor: int, inode: int, folder: bytes
) -> None:
    line = b"%x-%x r-xp 0 %02x:%02x %d   /%s/libcuda.so.1\n" % (
        start, start, major, minor, inode, folder,
    )  # fmt: skip
    (mapping,) = read(line)
    assert mapping.file_id == FileId(major, minor, inode)
    assert (mapping.start, mapping.deleted) == (start, False)
    assert mapping.path.encode("utf-8", "surrogateescape") == b"/%s/libcuda.so.1" % folder
