"""Files that are left alone for a while: the off switch, and checkpoints of processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpugauge.model.library import FileId

OFF = "probes are switched off on this node"
CHECKPOINT = "its library is left alone while a process is checkpointed"
DOUBLED = "its library is another name of one that is traced: calls were hit twice"


class Pauses:
    """Which files must not be attached now, and why."""

    def __init__(self) -> None:
        self.off = False
        """No file at all: somebody switched the probes off."""
        self._paused: dict[FileId, tuple[int, str]] = {}
        """By file: until when, and why."""

    def turn(self, on: bool) -> None:
        """Switch the probes of this node on or off."""
        self.off = not on

    def begin(self, files: Iterable[FileId], until_ns: int, reason: str = CHECKPOINT) -> None:
        """Leave files alone until a time of CLOCK_MONOTONIC; a later one wins."""
        for file_id in files:
            before = self._paused.get(file_id, (0, ""))
            self._paused[file_id] = max(before, (until_ns, reason))

    def end(self, files: Collection[FileId]) -> None:
        """Attach files again."""
        for file_id in files:
            self._paused.pop(file_id, None)

    def apply(
        self, chosen: list[FileId], reasons: dict[FileId, str], now_ns: int
    ) -> tuple[list[FileId], dict[FileId, str]]:
        """Return what is left of a choice, and the reasons with those of the others."""
        self._paused = {f: pause for f, pause in self._paused.items() if pause[0] > now_ns}
        if self.off:
            return [], {**reasons, **dict.fromkeys(chosen, OFF)}
        if not self._paused:
            return chosen, reasons
        paused = {each: self._paused[each][1] for each in chosen if each in self._paused}
        return [each for each in chosen if each not in paused], {**reasons, **paused}
