"""Files that are left alone for a while: the off switch, and checkpoints of processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpugauge.model.library import FileId

OFF = "probes are switched off on this node"
CHECKPOINT = "its library is left alone while a process is checkpointed"


class Pauses:
    """Which files must not be attached now, and why."""

    def __init__(self) -> None:
        self.off = False
        """No file at all: somebody switched the probes off."""
        self._until_ns: dict[FileId, int] = {}

    def begin(self, files: Iterable[FileId], until_ns: int) -> None:
        """Leave files alone until a time of CLOCK_MONOTONIC; a later one wins."""
        for file_id in files:
            self._until_ns[file_id] = max(until_ns, self._until_ns.get(file_id, 0))

    def end(self, files: Collection[FileId]) -> None:
        """Attach files again."""
        for file_id in files:
            self._until_ns.pop(file_id, None)

    def apply(
        self, chosen: list[FileId], reasons: dict[FileId, str], now_ns: int
    ) -> tuple[list[FileId], dict[FileId, str]]:
        """Return what is left of a choice, and the reasons with those of the others."""
        self._until_ns = {f: until for f, until in self._until_ns.items() if until > now_ns}
        if self.off:
            return [], {**reasons, **dict.fromkeys(chosen, OFF)}
        if not self._until_ns:
            return chosen, reasons
        paused = dict.fromkeys((each for each in chosen if each in self._until_ns), CHECKPOINT)
        return [each for each in chosen if each not in paused], {**reasons, **paused}
