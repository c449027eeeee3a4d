"""Whole reads of maps: every entry once, whatever the size of the buffer."""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.ebpf import maps, syscalls
from gpugauge.ebpf.loader import Loaded, load
from gpugauge.ebpf.maps import Map
from gpugauge.ebpf.object import MapDefinition
from gpugauge.ebpf.syscalls import BpfCallError, Command

ENTRIES = 2003


def key(number: int) -> bytes:
    return struct.pack("<I", number)


def value(number: int) -> bytes:
    return struct.pack("<QQ", number, number * number)


@pytest.fixture
def numbers(features_object: bytes) -> Iterator[Map]:
    with load(features_object, [], {}, {"numbers": 4096}) as loaded:
        found = loaded.maps["numbers"]
        for number in range(ENTRIES):
            found.update(key(number), value(number))
        yield found


def collect(found: Map, entries: int) -> dict[int, tuple[int, int]]:
    rows: dict[int, tuple[int, int]] = {}
    for keys, values, count in found.batch(entries):
        assert len(keys) == 4 * count
        assert len(values) == 16 * count
        for at in range(count):
            (number,) = struct.unpack_from("<I", keys, 4 * at)
            assert number not in rows, "an entry came twice"
            rows[number] = struct.unpack_from("<QQ", values, 16 * at)
    return rows


EXPECTED = {number: (number, number * number) for number in range(ENTRIES)}


@pytest.mark.parametrize("entries", [1, 2, 7, 1024, 1 << 20])
def test_every_entry_comes_once(numbers: Map, entries: int) -> None:
    """With room for one entry every bucket that holds more makes Linux say ENOSPC."""
    assert collect(numbers, entries) == EXPECTED


def test_an_empty_map_yields_nothing(features_object: bytes) -> None:
    with load(features_object, []) as loaded:
        assert list(loaded.maps["numbers"].batch()) == []


def test_an_array_is_read_whole(features_object: bytes) -> None:
    with load(features_object, []) as loaded:
        rows = list(loaded.maps["mapped"].batch(2))
    assert sum(count for _, _, count in rows) == 3


def test_without_batches_keys_are_walked(numbers: Map, monkeypatch: pytest.MonkeyPatch) -> None:
    real = syscalls.bpf

    def old_linux(command: Command, attribute: object) -> int:
        if command in (Command.MAP_LOOKUP_BATCH, Command.MAP_DELETE_BATCH):
            raise BpfCallError(errno.EINVAL, "Invalid argument")
        return real(command, attribute)  # type: ignore[arg-type]

    monkeypatch.setattr(syscalls, "bpf", old_linux)
    assert collect(numbers, 100) == EXPECTED
    assert numbers.delete_batch(b"".join(key(n) for n in range(0, 4006, 2))) == 1002
    assert collect(numbers, 100) == {n: v for n, v in EXPECTED.items() if n % 2}


def test_interrupted_reads_go_on(numbers: Map, monkeypatch: pytest.MonkeyPatch) -> None:
    real = syscalls.bpf
    calls = iter(range(10**6))

    def signals(command: Command, attribute: object) -> int:
        if command == Command.MAP_LOOKUP_BATCH and next(calls) % 3 == 0:
            struct.pack_into("<I", attribute, 32, 0)  # type: ignore[arg-type]
            raise BpfCallError(errno.EINTR, "Interrupted system call")
        return real(command, attribute)  # type: ignore[arg-type]

    monkeypatch.setattr(syscalls, "bpf", signals)
    assert collect(numbers, 50) == EXPECTED


def test_a_read_that_is_always_interrupted_ends(
    numbers: Map, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signals(command: Command, attribute: object) -> int:
        struct.pack_into("<I", attribute, 32, 0)  # type: ignore[arg-type]
        raise BpfCallError(errno.EINTR, "Interrupted system call")

    monkeypatch.setattr(syscalls, "bpf", signals)
    with pytest.raises(BpfCallError):
        list(numbers.batch())


def test_entries_that_stay_are_read_while_others_come_and_go(numbers: Map) -> None:
    """Numbers below ENTRIES stay; those above are added and deleted all the time."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(3000, 3500):
                numbers.update(key(number), value(number))
            for number in range(3000, 3500):
                numbers.delete(key(number))

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for entries in (3, 64, 1024):
            for _ in range(5):
                rows: dict[int, tuple[int, int]] = {}
                for keys, values, count in numbers.batch(entries):
                    for at in range(count):
                        (number,) = struct.unpack_from("<I", keys, 4 * at)
                        rows[number] = struct.unpack_from("<QQ", values, 16 * at)
                assert {n: v for n, v in rows.items() if n < ENTRIES} == EXPECTED
    finally:
        stop.set()
        writer.join()


def test_deleting_while_reading_skips_nothing(numbers: Map) -> None:
    seen: set[int] = set()
    for keys, _, count in numbers.batch(16):
        seen |= set(struct.unpack(f"<{count}I", keys))
        assert numbers.delete_batch(keys) == count
    assert seen == EXPECTED.keys()
    assert list(numbers.batch()) == []


def test_deleting_keys_that_are_gone_deletes_the_others(numbers: Map) -> None:
    keys = b"".join(key(n) for n in (5, 9001, 7, 9002, 9003, 11, 9004))
    assert numbers.delete_batch(keys) == 3
    assert numbers.lookup(key(7)) is None
    assert numbers.lookup(key(6)) == value(6)
    assert numbers.delete_batch(b"") == 0


def test_single_entries(numbers: Map) -> None:
    assert numbers.lookup(key(13)) == value(13)
    assert numbers.lookup(key(9001)) is None
    assert numbers.delete(key(13)) is True
    assert numbers.delete(key(13)) is False
    with pytest.raises(ValueError, match="a key has 4 bytes"):
        numbers.lookup(b"12345")
    with pytest.raises(ValueError, match="a value has 16 bytes"):
        numbers.update(key(1), b"")
    with pytest.raises(BpfCallError):
        numbers.update(key(17), value(17), flags=1)  # it exists


def test_a_read_within_a_read_is_refused(numbers: Map) -> None:
    reading = numbers.batch(7)
    next(reading)
    with pytest.raises(RuntimeError, match="being read"):
        next(numbers.batch())
    reading.close()  # type: ignore[attr-defined]
    assert collect(numbers, 1024) == EXPECTED


def test_only_mappable_maps_are_mapped(numbers: Map) -> None:
    with pytest.raises(BpfCallError, match="not made to be mapped"):
        numbers.memory()


def test_values_per_cpu_are_as_wide_as_linux_writes_them() -> None:
    definition = MapDefinition("wide", 5, 4, 12, 8, 0)  # BPF_MAP_TYPE_PERCPU_HASH
    fd = syscalls.bpf(Command.MAP_CREATE, syscalls.pack("IIII", 5, 4, 12, 8))
    found = Map(fd, definition)
    try:
        assert found.value_size == 16 * maps.possible_cpus()
        found.update(key(3), bytes(range(16)) * maps.possible_cpus())
        got = found.lookup(key(3))
        assert got is not None
        assert got[:12] == bytes(range(12))
        assert [count for _, _, count in found.batch()] == [1]
    finally:
        found.close()


def test_closing_twice_is_harmless(features_object: bytes, tmp_path: Path) -> None:
    loaded: Loaded = load(features_object, [])
    loaded.close()
    loaded.close()
    assert loaded.maps["numbers"].memory_bytes() is None
