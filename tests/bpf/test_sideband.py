"""Linux tells which process maps which file."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpugauge.ebpf.sideband import Sideband
from gpugauge.model.sideband import (
    CommandSet,
    FileMapped,
    SidebandRecord,
    TaskEnded,
    TaskStarted,
)


def read_until(
    sideband: Sideband, done: int, kinds: type | tuple[type, ...]
) -> list[SidebandRecord]:
    found: list[SidebandRecord] = []
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sideband.wait(0.2)
        batch = sideband.read()
        found += [each for each in batch.records if isinstance(each, kinds)]
        if len(found) >= done:
            return found
    pytest.fail(f"{len(found)} of {done} records in 20 s")


def test_a_mapped_library_is_told_with_its_inode(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "libsideband-7.so"
    shutil.copy(library, copy)
    sideband = Sideband(wanted=lambda path: path == bytes(copy))
    try:
        before = time.monotonic_ns()
        child = subprocess.Popen(
            [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(copy)!r})"]
        )
        child.wait()
        (record,) = read_until(sideband, 1, FileMapped)
    finally:
        sideband.close()
    status = copy.stat()
    assert isinstance(record, FileMapped)
    assert record.pid == child.pid
    assert record.path == str(copy)
    assert record.file_id.inode == status.st_ino
    assert record.file_id.device_major == os.major(status.st_dev)
    assert record.file_id.device_minor == os.minor(status.st_dev)
    assert record.protection & 4
    assert before < record.time_ns < time.monotonic_ns()


def test_processes_that_start_execute_and_end_are_told() -> None:
    sideband = Sideband(commands=True, tasks=True, wanted=lambda _: False)
    try:
        child = subprocess.Popen(["/bin/true"])
        child.wait()
        records: list[SidebandRecord] = []
        for _ in range(100):
            sideband.wait(0.1)
            records += [e for e in sideband.read().records if e.pid == child.pid]
            if any(isinstance(each, TaskEnded) for each in records):
                break
    finally:
        sideband.close()
    assert any(isinstance(e, TaskStarted) and e.parent_pid == os.getpid() for e in records)
    assert any(isinstance(e, CommandSet) and e.command == "true" and e.executed for e in records)
    assert any(isinstance(each, TaskEnded) and each.tid == child.pid for each in records)


def test_a_full_buffer_is_told_as_lost(library: Path, tmp_path: Path) -> None:
    """One page holds few records: a thousand mappings must show up as records or as lost."""
    copy = tmp_path / "libsideband-flood.so"
    shutil.copy(library, copy)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    sideband = Sideband(pages=1, wanted=lambda path: path == bytes(copy))
    told = lost = 0
    try:
        with copy.open("rb") as file:
            for _ in range(1009):
                at = libc.mmap(None, 4096, 5, 2, file.fileno(), 0)
                libc.munmap(at, 4096)
        for _ in range(3):  # a loss is told with the next record that fits
            batch = sideband.read()
            told += len(batch.records)
            lost += batch.lost
            with copy.open("rb") as file:
                libc.munmap(libc.mmap(None, 4096, 5, 2, file.fileno(), 0), 4096)
    finally:
        sideband.close()
    assert lost > 0
    assert told > 0
    assert told + lost >= 1009


def test_the_limit_of_a_read_leaves_the_rest_for_the_next(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "libsideband-many.so"
    shutil.copy(library, copy)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    sideband = Sideband(pages=64, wanted=lambda path: path == bytes(copy))
    try:
        with copy.open("rb") as file:
            for _ in range(101):
                libc.munmap(libc.mmap(None, 4096, 5, 2, file.fileno(), 0), 4096)
        total, rounds, more = 0, 0, True
        while more:
            batch = sideband.read(most=7)
            total, rounds, more = total + len(batch.records), rounds + 1, batch.more
    finally:
        sideband.close()
    assert total == 101  # and none of the starts and ends of processes meanwhile
    assert rounds > 5
