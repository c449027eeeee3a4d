"""BPF maps: look-ups, reads of whole maps in batches, maps in memory."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from gpugauge.ebpf import syscalls
from gpugauge.ebpf.object import MAP_MMAPABLE, MapDefinition
from gpugauge.ebpf.syscalls import BpfCallError, Command

BATCH_ENTRIES = 1024
MAX_RETRIES = 64
NOT_OFFERED = frozenset({errno.EINVAL, errno.EOPNOTSUPP, 524})  # 524: ENOTSUPP of Linux

_TYPES_PER_CPU = frozenset({5, 6, 10, 21})
_BATCH = struct.Struct("<QQQQIIQQ")


def possible_cpus() -> int:
    """Return how many CPUs Linux has room for: per-CPU maps hold a value for each."""
    text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
    return int(text.strip().split(",")[-1].split("-")[-1]) + 1


class Map:
    """One map, by its descriptor.

    Reads are for one thread at a time: the buffers of a batch are reused.
    """

    def __init__(self, fd: int, definition: MapDefinition) -> None:
        self.fd = fd
        self.name = definition.name
        self.type = definition.type
        self.key_size = definition.key_size
        self.max_entries = definition.max_entries
        self.flags = definition.flags
        self.value_size = definition.value_size
        if definition.type in _TYPES_PER_CPU:
            self.value_size = (definition.value_size + 7 & ~7) * possible_cpus()
        self._lock = threading.Lock()
        self._batch_offered = True
        self._entries = 0
        self._keys = self._values = syscalls.buffer_of(b"")
        place = max(definition.key_size, 8)  # where Linux is: as long as a key, at least 4 bytes
        self._cursors = (ctypes.create_string_buffer(place), ctypes.create_string_buffer(place))
        self._memory: mmap.mmap | None = None

    def lookup(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None.

        Raises:
            BpfCallError: Anything but "no such key".
        """
        value = ctypes.create_string_buffer(self.value_size)
        try:
            self._element(Command.MAP_LOOKUP, key, syscalls.address(value))
        except BpfCallError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return value.raw

    def update(self, key: bytes, value: bytes, flags: int = 0) -> None:
        """Write a value; flags 1 wants a new key, 2 an existing one.

        Raises:
            BpfCallError: The map is full (E2BIG), or the flags do not hold.
        """
        if len(value) != self.value_size:
            raise ValueError(f"{self.name}: a value has {self.value_size} bytes, not {len(value)}")
        buffer = syscalls.buffer_of(value)
        self._element(Command.MAP_UPDATE, key, syscalls.address(buffer), flags)

    def push(self, value: bytes) -> None:
        """Put a value into a queue.

        Raises:
            BpfCallError: The queue is full (E2BIG).
        """
        self.update(b"", value)

    def delete(self, key: bytes) -> bool:
        """Delete a key; return whether it was there."""
        try:
            self._element(Command.MAP_DELETE, key, 0)
        except BpfCallError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def next_key(self, key: bytes | None) -> bytes | None:
        """Return the key after one (None: the first), or None at the end."""
        after = ctypes.create_string_buffer(self.key_size)
        try:
            self._element(Command.MAP_GET_NEXT_KEY, key, syscalls.address(after))
        except BpfCallError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return after.raw

    def batch(self, entries: int = BATCH_ENTRIES) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the whole map in chunks of (keys, values, number of entries).

        An entry that stays in the map during the read is yielded once, as long
        as entries are only added and deleted by their owners: Linux walks
        bucket by bucket. Where batches are not offered (before Linux 5.6, or
        for this type of map) keys are walked one by one.

        Args:
            entries: Entries a chunk, at first; it grows when one bucket holds more.

        Raises:
            BpfCallError: The map cannot be read.
            RuntimeError: It is being read already: the buffers are shared by all reads.
        """
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(f"{self.name} is being read already")
        try:
            if self._batch_offered:
                self._room(max(1, entries))
                try:
                    yield from self._chunks()
                    return
                except _BatchNotOfferedError:
                    self._batch_offered = False
            yield from self._one_by_one()
        finally:
            self._lock.release()

    def delete_batch(self, keys: bytes) -> int:
        """Delete keys (laid end to end); return how many were there."""
        total = len(keys) // self.key_size
        done = deleted = 0
        while done < total and self._batch_offered:
            part = syscalls.buffer_of(keys[done * self.key_size :])
            attribute = ctypes.create_string_buffer(
                _BATCH.pack(0, 0, syscalls.address(part), 0, total - done, self.fd, 0, 0), 56
            )
            try:
                syscalls.bpf(Command.MAP_DELETE_BATCH, attribute)
                return deleted + total - done
            except BpfCallError as error:
                if error.errno in NOT_OFFERED:
                    self._batch_offered = False
                    break
                (count,) = struct.unpack_from("<I", attribute, 32)
                if error.errno not in (errno.ENOENT, errno.EINTR):
                    raise
                deleted += count
                # ENOENT: the key after those deleted was gone; go on behind it.
                done += count + (error.errno == errno.ENOENT)
        return deleted + sum(
            self.delete(keys[at : at + self.key_size])
            for at in range(done * self.key_size, total * self.key_size, self.key_size)
        )

    def memory(self, *, writable: bool = False) -> memoryview:
        """Return an array made with BPF_F_MMAPABLE, as memory.

        Element n begins at n times the value size rounded up to 8 bytes.

        Raises:
            BpfCallError: The map cannot be mapped.
        """
        if not self.flags & MAP_MMAPABLE:
            raise BpfCallError(errno.EINVAL, f"{self.name} is not made to be mapped")
        if self._memory is None:
            page = mmap.PAGESIZE
            size = (self.value_size + 7 & ~7) * self.max_entries
            protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            try:
                self._memory = mmap.mmap(
                    self.fd, (size + page - 1) // page * page, mmap.MAP_SHARED, protection
                )
            except OSError as error:
                raise BpfCallError(error.errno, error.strerror) from None
        return memoryview(self._memory)

    def memory_bytes(self) -> int | None:
        """Return what Linux charges for the map, or None where it does not say."""
        try:
            text = Path(f"/proc/self/fdinfo/{self.fd}").read_text(encoding="ascii")
        except OSError:
            return None
        for line in text.splitlines():
            if line.startswith("memlock:"):
                return int(line.split()[1])
        return None

    def close(self) -> None:
        """Close the descriptor; the map lives on while a program uses it."""
        if self._memory is not None:
            with contextlib.suppress(BufferError):  # a view of it is still held by the caller
                self._memory.close()
            self._memory = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _element(self, command: Command, key: bytes | None, value: int, flags: int = 0) -> None:
        if key is not None and len(key) != self.key_size:
            raise ValueError(f"{self.name}: a key has {self.key_size} bytes, not {len(key)}")
        buffer = syscalls.buffer_of(key or b"")
        at = syscalls.address(buffer) if key else 0  # a queue has no key: no address
        syscalls.bpf(command, syscalls.pack("IxxxxQQQ", self.fd, at, value, flags))

    def _room(self, entries: int) -> None:
        entries = min(entries, self.max_entries)
        if entries > self._entries:
            self._entries = entries
            self._keys = _untouched(entries * self.key_size)
            self._values = _untouched(entries * self.value_size)

    def _chunks(self) -> Iterator[tuple[bytes, bytes, int]]:
        source, target = self._cursors
        first, last, idle_rounds = True, False, 0
        while not last:
            attribute = ctypes.create_string_buffer(
                _BATCH.pack(
                    0 if first else syscalls.address(source),
                    syscalls.address(target),
                    syscalls.address(self._keys),
                    syscalls.address(self._values),
                    self._entries,
                    self.fd,
                    0,
                    0,
                ),
                56,
            )
            try:
                syscalls.bpf(Command.MAP_LOOKUP_BATCH, attribute)
            except BpfCallError as error:
                if error.errno == errno.ENOSPC:
                    # One bucket holds more than the buffer. Nothing of it was given out and
                    # the place is kept: grow and ask again.
                    if self._entries >= self.max_entries:
                        raise
                    self._room(self._entries * 2)
                    continue
                if error.errno in NOT_OFFERED and first:
                    raise _BatchNotOfferedError from None
                if error.errno not in (errno.ENOENT, errno.EINTR):
                    raise
                last = error.errno == errno.ENOENT
                (count,) = struct.unpack_from("<I", attribute, 32)
                if not count and not last:  # interrupted before the first: the same again
                    idle_rounds += 1
                    if idle_rounds > MAX_RETRIES:
                        raise
                    continue
            (count,) = struct.unpack_from("<I", attribute, 32)
            first, idle_rounds = False, 0
            if count:
                yield (
                    ctypes.string_at(self._keys, count * self.key_size),
                    ctypes.string_at(self._values, count * self.value_size),
                    count,
                )
            source, target = target, source

    def _one_by_one(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Walk the keys first: deleting one while walking would begin the walk again."""
        keys: list[bytes] = []
        seen: set[bytes] = set()
        key = self.next_key(None)
        while key is not None and key not in seen and len(keys) < 2 * self.max_entries:
            seen.add(key)
            keys.append(key)
            key = self.next_key(key)
        for key in keys:
            value = self.lookup(key)
            if value is not None:
                yield key, value, 1


class _BatchNotOfferedError(Exception):
    """This Linux, or this type of map, has no batches."""


def _untouched(size_bytes: int) -> ctypes.Array[ctypes.c_char]:
    """Return a buffer that takes no memory before it is written: maps are seldom full."""
    return (ctypes.c_char * size_bytes).from_buffer(mmap.mmap(-1, size_bytes))
