"""One agent a node: a second one would count every call twice."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from gpugauge.errors import UnavailableError

LOCK_PATHS = ("/run/gpugauge.lock", "/var/run/gpugauge.lock", "/tmp/gpugauge.lock")  # noqa: S108


class NodeLock:
    """Held by the running agent; Linux lets go of it however the agent ends."""

    def __init__(self, paths: tuple[str, ...] = LOCK_PATHS) -> None:
        """Take where the lock file may be: the first folder that can be written to."""
        self._paths = paths
        self._fd = -1

    def __enter__(self) -> NodeLock:
        """Take the lock.

        Raises:
            UnavailableError: Another agent runs on this node.
        """
        for path in self._paths:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                self._fd = os.open(path, flags, 0o600)
                break
            except OSError:
                continue
        if self._fd < 0:
            raise UnavailableError(
                "No folder for the lock file of the agent can be written to.",
                f"Make {Path(self._paths[0]).parent} writable.",
            )
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise UnavailableError(
                f"Another gpugauge agent runs on this node (pid {other or 'unknown'}).",
                "Two would count every call twice: stop one of them.",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of it."""
        os.close(self._fd)
