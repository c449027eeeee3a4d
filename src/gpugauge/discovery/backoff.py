"""When a refused file may be tried again: later each time, in a table that cannot grow."""

from __future__ import annotations

from collections import OrderedDict

from gpugauge.model.library import FileId
from gpugauge.units import NS_PER_SECOND

FIRST_NS = 10 * NS_PER_SECOND
LONGEST_NS = 3600 * NS_PER_SECOND
ENTRIES_LIMIT = 1024


class Backoff:
    """Failures by file: one attempt, then waits of 10 s that double up to an hour.

    The least recently failed file is forgotten first, so a flood of files costs
    a bounded table, and at worst one early attempt for an old one.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[FileId, tuple[int, int]] = OrderedDict()

    def failed(self, file_id: FileId, now_ns: int) -> None:
        """Note a failure."""
        count = self._failures.pop(file_id, (0, 0))[0] + 1
        wait_ns = min(FIRST_NS << min(count - 1, 16), LONGEST_NS)
        self._failures[file_id] = (count, now_ns + wait_ns)
        if len(self._failures) > ENTRIES_LIMIT:
            self._failures.popitem(last=False)

    def succeeded(self, file_id: FileId) -> None:
        """Forget the failures of a file."""
        self._failures.pop(file_id, None)

    def allows(self, file_id: FileId, now_ns: int) -> bool:
        """Whether a file may be tried now."""
        return self._failures.get(file_id, (0, now_ns))[1] <= now_ns
