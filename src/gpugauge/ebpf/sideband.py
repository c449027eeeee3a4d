"""Side-band records of perf: which process maps which file, told by Linux as it happens.

One event a CPU that counts nothing and samples nothing (a dummy), with a
small buffer each. Needs PERFMON. `watermark` makes the first byte wake the
reader: record counts never do for these.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import struct
from collections.abc import Callable
from pathlib import Path

from gpugauge.ebpf import sideband_record, syscalls
from gpugauge.ebpf.syscalls import BpfCallError
from gpugauge.errors import ForeignDataError, UnsupportedError
from gpugauge.model.sideband import SidebandBatch, SidebandRecord

DATA_PAGES = 16
"""A CPU, a power of two: 64 KiB hold about 500 records. Within perf_event_mlock_kb."""
READ_AT_MOST = 8192

_SOFTWARE = 1
_DUMMY = 9
_MONOTONIC = 1
_FLAG = {
    "mmap": 8,
    "comm": 9,
    "task": 13,
    "watermark": 14,
    "sample_id_all": 18,
    "mmap2": 23,
    "comm_exec": 24,
    "use_clockid": 25,
}
_HEAD = 1024  # data_head and data_tail in struct perf_event_mmap_page
_U64 = struct.Struct("<Q")


def online_cpus() -> list[int]:
    """Return the CPUs that are on now."""
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii").strip()
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Sideband:
    """A reader of side-band records of all processes.

    Args:
        commands: Tell names and executed programs too.
        tasks: Tell starts and ends of processes and threads too.
        wanted: Which mapped files to tell, by path as raw bytes; None is all. Called for
            every executable mapping on the node: keep it as small as `b"cuda" in path`.
        pages: Pages of the buffer of a CPU, a power of two.

    Raises:
        UnsupportedError: Linux refuses, by privilege or memory.
    """

    def __init__(
        self,
        *,
        commands: bool = False,
        tasks: bool = False,
        wanted: Callable[[bytes], bool] | None = None,
        pages: int = DATA_PAGES,
    ) -> None:
        self._wanted = wanted
        self._tasks = tasks
        self._size = pages * mmap.PAGESIZE
        self._poll = select.epoll()
        self._buffers: list[tuple[int, mmap.mmap]] = []
        flags = ["mmap", "mmap2", "watermark", "sample_id_all", "use_clockid"]
        flags += ["comm", "comm_exec"] if commands else []
        flags += ["task"] if tasks else []
        try:
            for cpu in online_cpus():
                self._open(cpu, sum(1 << _FLAG[each] for each in flags))
        except OSError as error:
            self.close()
            step = "Give the agent the capability PERFMON." if error.errno == errno.EACCES else ""
            raise UnsupportedError(
                f"Linux does not tell which files processes map: {syscalls.errno_text(error)}.",
                step,
            ) from None

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to read."""
        return self._poll.fileno()

    def wait(self, timeout_s: float) -> bool:
        """Wait for records; return whether there are some."""
        return bool(self._poll.poll(timeout_s, 1))

    def read(self, most: int = READ_AT_MOST) -> SidebandBatch:
        """Return what is there, by time, at most `most` records a CPU."""
        records: list[SidebandRecord] = []
        lost, more = 0, False
        for _, buffer in self._buffers:
            part_lost, part_more = self._drain(buffer, most, records)
            lost += part_lost
            more |= part_more
        records.sort(key=lambda each: each.time_ns)
        return SidebandBatch(tuple(records), lost, more)

    def close(self) -> None:
        """Stop. Records not read are gone."""
        for fd, buffer in self._buffers:
            buffer.close()
            os.close(fd)
        self._buffers = []
        self._poll.close()

    def _open(self, cpu: int, flags: int) -> None:
        attribute = bytearray(112)
        sample = sideband_record.SAMPLE_TIME
        struct.pack_into("<IIQQQQQI", attribute, 0, _SOFTWARE, 112, _DUMMY, 0, sample, 0, flags, 1)
        struct.pack_into("<i", attribute, 92, _MONOTONIC)
        try:
            fd = syscalls.perf_event_open(bytes(attribute), -1, cpu)
        except BpfCallError as error:
            if error.errno in (errno.ENODEV, errno.ENXIO):  # the CPU went off meanwhile
                return
            raise
        try:
            buffer = mmap.mmap(fd, mmap.PAGESIZE + self._size, mmap.MAP_SHARED)
        except OSError:
            os.close(fd)
            raise
        self._buffers.append((fd, buffer))
        with contextlib.suppress(FileExistsError):
            self._poll.register(fd, select.EPOLLIN)

    def _drain(
        self, buffer: mmap.mmap, most: int, records: list[SidebandRecord]
    ) -> tuple[int, bool]:
        """Copy what Linux wrote, give the room back at once, then take it apart."""
        head, tail = _U64.unpack_from(buffer, _HEAD)[0], _U64.unpack_from(buffer, _HEAD + 8)[0]
        if head == tail:
            return 0, False
        start, length = tail % self._size, min(head - tail, self._size)
        base = mmap.PAGESIZE
        data = buffer[base + start : base + min(start + length, self._size)]
        if start + length > self._size:
            data += buffer[base : base + start + length - self._size]
        try:
            used, lost = sideband_record.parse(data, most, self._wanted, records, tasks=self._tasks)
        except ForeignDataError:  # start anew behind it; telling a loss makes the reader scan
            used, lost = length, 1
        _U64.pack_into(buffer, _HEAD + 8, tail + used)
        return lost, used < length
