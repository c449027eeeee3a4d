"""Small files that Linux makes as they are read, read again and again.

A file of a cgroup is read anew from its beginning with one call where it stays open, and with
three where it does not, one of which walks a long path: a node has hundreds of them.
"""

from __future__ import annotations

import os
import resource

FILE_LIMIT_BYTES = 8_192
KEPT_LIMIT = 2_048
SHARE_OF_LIMIT = 4
"""At most this part of the files that the process may open are kept: probes need the others."""


class KeptFiles:
    """Files by path, those that were read lately kept open."""

    def __init__(self, most: int | None = None) -> None:
        """Open nothing yet.

        Args:
            most: How many are kept open; the others are opened for each reading.
        """
        if most is None:
            soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = KEPT_LIMIT if soft < 0 else min(KEPT_LIMIT, soft // SHARE_OF_LIMIT)
        self._most = most
        self._open: dict[str, int] = {}
        self._read: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    def read(self, path: str) -> bytes | None:
        """Return the beginning of a file, or None where there is none."""
        kept = self._open.get(path)
        if kept is not None:
            try:
                data = os.pread(kept, FILE_LIMIT_BYTES, 0)
            except OSError:  # its cgroup is gone; there may be a new one of that name
                os.close(self._open.pop(path))
            else:
                self._read.add(path)
                return data
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            return None
        try:
            data = os.pread(opened, FILE_LIMIT_BYTES, 0)
        except OSError:
            os.close(opened)
            return None
        if len(self._open) < self._most:
            self._open[path] = opened
            self._read.add(path)
        else:
            os.close(opened)
        return data

    def turn(self) -> None:
        """Close what was not read since the last turn."""
        for path in self._open.keys() - self._read:
            os.close(self._open.pop(path))
        self._read.clear()

    def close(self) -> None:
        """Close all."""
        while self._open:
            os.close(self._open.popitem()[1])
