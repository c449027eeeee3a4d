"""When something began: where work or waits changed most in the last minutes."""

from __future__ import annotations

from statistics import fmean

from gpugauge.diagnosis import columns as c
from gpugauge.diagnosis.subject import Subject

CHANGE_SECONDS = 120.0


def began_ago(subject: Subject) -> float:
    """Return seconds since the work or the waits of a subject changed most in the last minutes."""
    if subject.track is None:
        return 0.0
    points: list[tuple[float, float, float]] = []
    covered = 0.0
    for row in subject.track.fine.newest_first():
        seconds = row[c.SECONDS]
        covered += seconds
        work = (row[c.LAUNCHES] + row[c.GRAPH_NODES] + row[c.GRAPHS_UNKNOWN]) / seconds
        waits = sum(row[column] for column in c.BLOCKED) / seconds
        points.append((covered, work, waits))
        if covered >= CHANGE_SECONDS:
            break
    best, ago = 0.0, points[0][0] if points else 0.0
    scales = [fmean(p[k] for p in points) or 1.0 for k in (1, 2)] if points else [1.0, 1.0]
    for at in range(1, len(points)):
        newer, older = points[:at], points[at:]
        size = (at * (len(points) - at)) ** 0.5
        step = sum(
            abs(fmean(p[k] for p in newer) - fmean(p[k] for p in older)) / scale
            for k, scale in zip((1, 2), scales, strict=True)
        )
        if step * size > best:
            best, ago = step * size, points[at - 1][0]
    return ago
