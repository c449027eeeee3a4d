"""Records of a perf buffer, taken apart (struct perf_event_header and what follows it)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from gpugauge.errors import ForeignDataError
from gpugauge.model.library import FileId
from gpugauge.model.sideband import (
    CommandSet,
    FileMapped,
    SidebandRecord,
    TaskEnded,
    TaskStarted,
)

SAMPLE_TIME = 1 << 2
"""Every record ends with its time."""

_LOST = 2
_COMM = 3
_EXIT = 4
_FORK = 7
_MMAP2 = 10
_LOST_SAMPLES = 13
_EXECUTED = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_BUILD_ID = 1 << 14  # the file is told by build id instead: never asked for

_HEADER = struct.Struct("<IHH")
_MAP = struct.Struct("<IIQQQIIQQII")
_TASK = struct.Struct("<IIIIQ")
_PAIR = struct.Struct("<II")
_U64 = struct.Struct("<Q")


def parse(
    data: bytes,
    most: int,
    wanted: Callable[[bytes], bool] | None,
    records: list[SidebandRecord],
    *,
    tasks: bool = True,
) -> tuple[int, int]:
    """Take records apart and append them.

    Args:
        data: Whole records, end to end.
        most: Stop after so many.
        wanted: Which mapped files to keep, by path; None is all.
        records: Where to append.
        tasks: Keep starts and ends: Linux writes them to whoever asked for mappings.

    Returns:
        How many bytes were used, and how many records Linux says it lost.

    Raises:
        ForeignDataError: A record that does not fit the bytes.
    """
    position, lost, seen = 0, 0, 0
    while position + _HEADER.size <= len(data) and seen < most:
        kind, misc, size = _HEADER.unpack_from(data, position)
        end = position + size
        if size < _HEADER.size or end > len(data):
            raise ForeignDataError("A perf record does not fit its buffer.")
        seen += 1
        try:
            if kind == _MMAP2:
                mapped = _mapped(data, position, end, misc, wanted)
                if mapped is not None:
                    records.append(mapped)
            elif kind == _COMM:
                records.append(_command(data, position, end, misc))
            elif kind in (_EXIT, _FORK) and tasks:
                records.append(_task(data, position, kind))
            elif kind == _LOST:
                lost += _U64.unpack_from(data, position + 16)[0]
            elif kind == _LOST_SAMPLES:
                lost += _U64.unpack_from(data, position + 8)[0]
        except struct.error:
            raise ForeignDataError("A perf record is cut off.") from None
        position = end
    return position, lost


def _mapped(
    data: bytes, position: int, end: int, misc: int, wanted: Callable[[bytes], bool] | None
) -> FileMapped | None:
    start = position + _HEADER.size + _MAP.size
    path = data[start : end - 8].partition(b"\0")[0]
    if (wanted is not None and not wanted(path)) or misc & _BUILD_ID:
        return None
    pid, tid, address, length, offset, major, minor, inode, generation, protection, _ = (
        _MAP.unpack_from(data, position + _HEADER.size)
    )
    (time_ns,) = _U64.unpack_from(data, end - 8)
    return FileMapped(
        time_ns,
        pid,
        tid,
        FileId(major, minor, inode),
        generation,
        os.fsdecode(path),
        address,
        length,
        offset,
        protection,
    )


def _command(data: bytes, position: int, end: int, misc: int) -> CommandSet:
    pid, tid = _PAIR.unpack_from(data, position + _HEADER.size)
    name = data[position + _HEADER.size + _PAIR.size : end - 8].partition(b"\0")[0]
    (time_ns,) = _U64.unpack_from(data, end - 8)
    return CommandSet(time_ns, pid, tid, os.fsdecode(name), bool(misc & _EXECUTED))


def _task(data: bytes, position: int, kind: int) -> TaskStarted | TaskEnded:
    pid, parent, tid, _, time_ns = _TASK.unpack_from(data, position + _HEADER.size)
    record = TaskStarted if kind == _FORK else TaskEnded
    return record(time_ns, pid, tid, parent)
