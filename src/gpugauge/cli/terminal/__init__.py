"""The terminal: its width, its colours, and tables that fit it."""

from __future__ import annotations

from gpugauge.discovery.names import clean

LINE_LIMIT = 4_000


def cleaned(text: str) -> str:
    """Return a text of several lines in which nothing steers the terminal."""
    return "\n".join(clean(line, LINE_LIMIT) for line in text.split("\n"))
