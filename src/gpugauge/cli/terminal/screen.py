"""Where a table goes: drawn anew in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from gpugauge.cli.terminal.colour import Colour, colour_for

ROOM_ELSEWHERE = 160
"""Columns where there is no terminal, and $COLUMNS does not tell."""
_HOME, _CLEAR, _LINE_REST, _REST = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"


class Screen:
    """Standard output."""

    def __init__(self, *, in_place: bool) -> None:
        """Look at what it is.

        Args:
            in_place: On a terminal, draw each table over the one before.
        """
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")  # a terminal may know ASCII alone
        self.terminal = sys.stdout.isatty()
        self.in_place = in_place and self.terminal
        self.colour: Colour = colour_for(self.terminal, os.environ)
        self._drawn = False

    @property
    def room(self) -> int:
        """Columns there are now: a window can change its size."""
        return shutil.get_terminal_size((ROOM_ELSEWHERE, 0)).columns

    def draw(self, head: Sequence[str], rows: Sequence[str], foot: Sequence[str]) -> None:
        """Show a table; where not all rows fit, the first ones, and how many are left."""
        shown = list(rows)
        if self.in_place:
            height = shutil.get_terminal_size((ROOM_ELSEWHERE, 24)).lines
            fit = max(1, height - len(head) - len(foot) - 1)
            if len(shown) > fit:
                left = f"and {len(shown) - fit + 1} more: a higher window, or --once, shows them"
                shown = [*shown[: fit - 1], left]
        lines = [*head, *shown, *foot]
        if self.in_place:
            start = _HOME if self._drawn else _CLEAR + _HOME
            text = start + "".join(f"{line}{_LINE_REST}\n" for line in lines) + _REST
        else:
            gap = "\n" if self._drawn else ""
            text = gap + "".join(f"{line}\n" for line in lines)
        self._drawn = True
        sys.stdout.write(text)
        sys.stdout.flush()
