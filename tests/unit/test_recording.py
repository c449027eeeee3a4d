"""Recordings: bounded, versioned, and readable up to the last whole line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec.recording import RecordingReader, RecordingWriter
from gpugauge.errors import ForeignDataError, SettingError, UnavailableError
from gpugauge.model.snapshot import Snapshot
from tests.support.snapshots import busy_snapshot, next_tick

TICKS = 7


def ticks() -> list[Snapshot]:
    made = [busy_snapshot()]
    while len(made) < TICKS:
        made.append(next_tick(made[-1]))
    return made


def record(path: Path, limit_bytes: int = 1 << 30) -> int:
    with RecordingWriter(path, limit_bytes) as writer:
        for snapshot in ticks():
            if not writer.write(snapshot):
                break
        return writer.snapshots


@pytest.mark.parametrize("name", ["node.jsonl", "node.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    assert record(tmp_path / name) == TICKS
    reader = RecordingReader(tmp_path / name)
    assert list(reader) == ticks()
    assert (reader.snapshots, reader.bad_lines) == (TICKS, 0)
    assert reader.agent_version == busy_snapshot().agent_version


def test_gz_is_smaller(tmp_path: Path) -> None:
    record(tmp_path / "a.jsonl")
    record(tmp_path / "a.jsonl.gz")
    assert (tmp_path / "a.jsonl.gz").stat().st_size * 3 < (tmp_path / "a.jsonl").stat().st_size


@pytest.mark.parametrize("name", ["cut.jsonl", "cut.jsonl.gz"])
def test_a_cut_last_line_is_counted_and_the_rest_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    record(path)
    path.write_bytes(path.read_bytes()[:-61])
    reader = RecordingReader(path)
    assert list(reader) == ticks()[:-1]
    assert reader.bad_lines == 1


def test_a_killed_writer_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl.gz"
    writer = RecordingWriter(path)
    for snapshot in ticks():
        writer.write(snapshot)
    data = path.read_bytes()  # as it lies on disk, never closed
    writer.close()
    path.write_bytes(data)
    reader = RecordingReader(path)
    assert list(reader) == ticks()
    assert reader.bad_lines == 1  # the end of the compressed stream is missing


def test_bad_lines_in_the_middle_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    record(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"version": 1}\n'
    lines[4] = b"\xff\xfe\n"
    path.write_bytes(b"".join(lines))
    reader = RecordingReader(path)
    kept = ticks()
    assert list(reader) == [kept[0], kept[2], *kept[4:]]
    assert reader.bad_lines == 2


def test_the_limit_holds(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    record(whole)
    limit = whole.stat().st_size // 2
    short = tmp_path / "short.jsonl"
    written = record(short, limit)
    assert 0 < written < TICKS
    assert short.stat().st_size <= limit
    assert len(list(RecordingReader(short))) == written


def test_no_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text("kept")
    with pytest.raises(SettingError, match="exists"):
        RecordingWriter(path)
    assert path.read_text() == "kept"


def test_no_folder_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        RecordingWriter(tmp_path / "none" / "a.jsonl")
    with pytest.raises(UnavailableError):
        RecordingReader(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"[]\n",
        b'{"gpugauge_recording": 2, "agent_version": "9"}\n',
        b'{"gpugauge_recording": 1, "agent_version": 9}\n',
        b"x" * 100_000,
        b"\x1f\x8bnot gzip",
        gzip.compress(b"x" * 100_000),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(data)
    with pytest.raises(ForeignDataError):
        RecordingReader(path)


@given(st.data())
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = (
        tmp_path_factory.mktemp("recording") / f"r.jsonl{data.draw(st.sampled_from(['', '.gz']))}"
    )
    record(path)
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    try:
        reader = RecordingReader(path)
    except ForeignDataError:
        return
    assert all(isinstance(snapshot, Snapshot) for snapshot in reader)
