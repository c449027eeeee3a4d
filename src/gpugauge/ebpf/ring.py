"""The consumer of a BPF ring buffer: rare events, read where they lie."""

from __future__ import annotations

import mmap
import select
import struct

from gpugauge.ebpf.maps import Map
from gpugauge.ebpf.syscalls import BpfCallError, errno_text
from gpugauge.errors import UnsupportedError

READ_AT_MOST = 4096
_BUSY = 1 << 31
_DISCARDED = 1 << 30
_HEADER_BYTES = 8

_POSITION = struct.Struct("<Q")


class Ring:
    """A ring buffer, mapped: one page of ours (how far we read), then Linux's pages.

    Linux maps the data twice in a row, so a record never wraps. One reader only.

    Raises:
        UnsupportedError: It cannot be mapped.
    """

    def __init__(self, ring: Map) -> None:
        page = mmap.PAGESIZE
        self._size = ring.max_entries
        self._mask = ring.max_entries - 1
        try:
            self._ours = mmap.mmap(ring.fd, page, mmap.MAP_SHARED)
            self._theirs = mmap.mmap(
                ring.fd, page + 2 * self._size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page
            )
        except (OSError, ValueError) as error:
            reason = errno_text(error) if isinstance(error, OSError) else str(error)
            raise UnsupportedError(f"The ring {ring.name} cannot be mapped: {reason}.") from None
        self._poll = select.epoll()
        self._poll.register(ring.fd, select.EPOLLIN)
        self._data = page

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to read."""
        return self._poll.fileno()

    def wait_for(self, descriptor: int) -> None:
        """Let what is readable there end a wait, too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Wait for records; return whether there are some."""
        return bool(self._poll.poll(timeout_s, 1))

    def read(self, most: int = READ_AT_MOST) -> list[bytes]:
        """Return the records that are complete, oldest first, and give their room back.

        At most `most` records: a flood of events cannot hold the reader. A record being
        written stops the reading there; it comes with the next call.
        """
        records: list[bytes] = []
        (position,) = _POSITION.unpack_from(self._ours, 0)
        # The position of Linux is read before the records below it: x86-64 keeps
        # that order, and the calls between two reads of Python are fences enough on arm64.
        (end,) = _POSITION.unpack_from(self._theirs, 0)
        if end - position > self._size:
            raise BpfCallError(0, "the positions of the ring are off")
        taken = 0
        while position < end and taken < most:
            at = self._data + (position & self._mask)
            (length,) = struct.unpack_from("<I", self._theirs, at)
            if length & _BUSY:
                break
            size = length & ~(_BUSY | _DISCARDED)
            if not length & _DISCARDED:
                records.append(self._theirs[at + _HEADER_BYTES : at + _HEADER_BYTES + size])
            position += (size + _HEADER_BYTES + 7) & ~7
            taken += 1
            _POSITION.pack_into(self._ours, 0, position)
        return records

    def close(self) -> None:
        """Unmap; what was not read is gone with the map."""
        self._poll.close()
        self._ours.close()
        self._theirs.close()
