"""What is remembered: 10 minutes point by point, then an hour at 15 s, within a budget of bytes.

Points are rows of 32-bit floats of what happened since the point before, one array a
track: 7 significant digits are more than any rule needs, and a row takes 124 bytes
where a snapshot takes thousands.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence

FINE_SECONDS = 600.0
COARSE_SECONDS = 3600.0
COARSE_STEP_SECONDS = 15.0
FINE_STEP_SECONDS = 0.95
"""Points that follow faster are added up, so that a short tick does not shorten the memory."""
SLACK = 1.125
"""Old rows go when there are so many more than wanted: moving the rest costs less often."""
TRACK_BYTES = 900
"""Of the objects around a track's arrays, measured with sys.getsizeof."""


class Rows:
    """Rows of one width; the first column is the seconds that a row covers."""

    def __init__(self, width: int, first_gauge: int, step_seconds: float) -> None:
        """Make it empty; columns from `first_gauge` on are not summed but replaced."""
        self._width = width
        self._first_gauge = first_gauge
        self._step_seconds = step_seconds
        self._data = array("f")
        self._pending: list[float] | None = None
        self.seconds = 0.0
        """Covered by the rows."""

    def __len__(self) -> int:
        return len(self._data) // self._width

    @property
    def bytes(self) -> int:
        """Memory of the rows."""
        return self._data.buffer_info()[1] * self._data.itemsize

    def add(self, row: Sequence[float]) -> None:
        """Add a row, or add it to the last one while that is shorter than a step."""
        pending = self._pending
        if pending is None:
            pending = list(row)
        else:
            gauge = self._first_gauge
            pending = [a + b for a, b in zip(pending[:gauge], row, strict=False)]
            pending += row[gauge:]
        if pending[0] >= self._step_seconds:
            self._data.extend(pending)
            self.seconds += pending[0]
            self._pending = None
        else:
            self._pending = pending

    def trim(self, keep_seconds: float) -> None:
        """Forget the oldest rows beyond this time."""
        if self.seconds <= keep_seconds * SLACK:
            return
        drop = 0
        while self.seconds > keep_seconds and drop < len(self) - 1:
            self.seconds -= self._data[drop * self._width]
            drop += 1
        del self._data[: drop * self._width]

    def clear(self) -> None:
        """Forget everything."""
        self._data = array("f")
        self._pending, self.seconds = None, 0.0

    def window(self, seconds: float, skip_seconds: float = 0.0) -> list[float] | None:
        """Return the last rows as one: sums, and the newest gauges.

        Args:
            seconds: the rows together cover at least this, if there are so many.
            skip_seconds: leave out rows that are newer than this.

        Returns:
            None where there is no row.
        """
        data, width = self._data, self._width
        end = len(data)
        while skip_seconds > 0 and end > 0:
            skip_seconds -= data[end - width]
            end -= width
        start, covered = end, 0.0
        while start > 0 and covered < seconds - 0.05 * seconds:
            start -= width
            covered += data[start]
        if start == end:
            return None
        if start == end - width:
            return list(data[start:end])
        block = data[start:end]
        result = [sum(block[column::width]) for column in range(self._first_gauge)]
        result += block[len(block) - width + self._first_gauge :]
        return result

    def rate(self, seconds: float, columns: Sequence[int]) -> float:
        """Return the sum of some columns per second over the last rows; 0 where there is none."""
        data, width = self._data, self._width
        start, covered, total = len(data), 0.0, 0.0
        while start > 0 and covered < seconds - 0.05 * seconds:
            start -= width
            covered += data[start]
            for column in columns:
                total += data[start + column]
        return total / covered if covered else 0.0

    def newest_first(self) -> Iterator[Sequence[float]]:
        """Iterate over the rows, the newest first."""
        width = self._width
        for start in range(len(self._data) - width, -1, -width):
            yield self._data[start : start + width]


class Track:
    """The history of one thing: fine rows, and coarse ones that reach further back."""

    def __init__(self, width: int, first_gauge: int) -> None:
        """Make it empty."""
        self.fine = Rows(width, first_gauge, FINE_STEP_SECONDS)
        self.coarse = Rows(width, first_gauge, COARSE_STEP_SECONDS)

    def add(self, row: Sequence[float]) -> None:
        """Add a point."""
        self.fine.add(row)
        self.coarse.add(row)

    def clear(self) -> None:
        """Forget everything: the points to come do not continue these."""
        self.fine.clear()
        self.coarse.clear()

    @property
    def bytes(self) -> int:
        """Memory of this track."""
        return self.fine.bytes + self.coarse.bytes + TRACK_BYTES


class History:
    """All tracks, within a budget: when it is reached, the oldest points of all go first."""

    def __init__(self, limit_bytes: int) -> None:
        """Make it empty."""
        self._limit_bytes = limit_bytes
        self._tracks: dict[Hashable, Track] = {}
        self.fine_seconds = FINE_SECONDS
        self.coarse_seconds = COARSE_SECONDS
        self.refused = 0
        """Tracks not made because the budget was taken by others."""

    def track(self, key: Hashable, width: int, first_gauge: int) -> Track | None:
        """Return the track of a thing, a new one if need be; None where there is no room."""
        found = self._tracks.get(key)
        if found is None:
            if (len(self._tracks) + 1) * TRACK_BYTES * 4 > self._limit_bytes:
                self.refused += 1
                return None
            found = self._tracks[key] = Track(width, first_gauge)
        return found

    def forget(self, key: Hashable) -> None:
        """Drop a track."""
        self._tracks.pop(key, None)

    @property
    def bytes(self) -> int:
        """Memory of all tracks."""
        return sum(track.bytes for track in self._tracks.values())

    def trim(self) -> None:
        """Forget what is older than wanted; want less while the budget is exceeded."""
        for track in self._tracks.values():
            track.fine.trim(self.fine_seconds)
            track.coarse.trim(self.coarse_seconds)
        if self.bytes > self._limit_bytes:
            self.fine_seconds = max(60.0, self.fine_seconds / 2)
            if self.fine_seconds == 60.0:
                self.coarse_seconds = max(300.0, self.coarse_seconds / 2)
        elif self.bytes < self._limit_bytes // 3:
            self.fine_seconds = min(FINE_SECONDS, self.fine_seconds * 2)
            self.coarse_seconds = min(COARSE_SECONDS, self.coarse_seconds * 2)
