"""A table as wide as the screen: columns go by importance, and texts are cut in the middle.

What stands in it comes from tenants: no control character gets through, and a wide character
counts for two columns.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpugauge.discovery.names import clean

CELL_LIMIT = 128
CUT = "…"
GAP = " "
_NO_PLACE = ("Mn", "Me", "Zs")
"""Marks that stack upon what is before them, and spaces that are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: how it is headed, and how it gives way on a narrow screen."""

    head: str
    right: bool = False
    least: int = 0
    """Texts may be cut down to this width; 0: never cut."""
    rank: int = 0
    """The highest goes first where there is no room; 0 never goes."""


Style = Callable[[int, str, str], str]
"""(row, head, padded cell) -> the cell in colour."""


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def visible(text: str, limit: int = CELL_LIMIT) -> str:
    """Return a foreign text in which every character takes a place of its own."""
    return "".join(
        "?" if each != " " and unicodedata.category(each) in _NO_PLACE else each
        for each in clean(text, limit)
    )


def cut(text: str, room: int) -> str:
    """Return a text that takes at most `room` columns, its middle left out."""
    if width(text) <= room:
        return text
    head = _most(text, (room - 1) // 2 + (room - 1) % 2)
    tail = _most(text[::-1], room - 1 - width(head))[::-1]
    return f"{head}{CUT}{tail}" if room > 0 else ""


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    room: int,
    style: Style = lambda _row, _head, cell: cell,
) -> list[str]:
    """Return the head and a line a row, none wider than `room`.

    Args:
        columns: From left to right.
        rows: A text for each column.
        room: Columns of the terminal.
        style: Colours a cell once it has its width.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = {
        number: max(width(each) for each in (column.head, *(row[number] for row in cells)))
        for number, column in enumerate(columns)
    }
    _shrink(columns, widths, room)
    lines = []
    for row_number, row in enumerate([[column.head for column in columns], *cells]):
        parts = []
        for number, wide in widths.items():
            fitted = cut(row[number], wide)
            space = " " * (wide - width(fitted))
            padded = space + fitted if columns[number].right else fitted + space
            if row_number:
                padded = style(row_number - 1, columns[number].head, padded)
            parts.append(padded)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _shrink(columns: Sequence[Column], widths: dict[int, int], room: int) -> None:
    """Leave columns out until the rest can be made to fit, then cut the widest texts."""

    def least(number: int) -> int:
        return min(widths[number], columns[number].least or widths[number])

    while _total({n: least(n) for n in widths}) > room:
        going = max(widths, key=lambda n: columns[n].rank)
        if not columns[going].rank:
            break
        del widths[going]
    while _total(widths) > room:
        cuttable = [n for n in widths if widths[n] > least(n)]
        if not cuttable:
            break
        widths[max(cuttable, key=lambda n: widths[n])] -= 1


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _most(text: str, room: int) -> str:
    taken = 0
    for number, each in enumerate(text):
        taken += width(each)
        if taken > room:
            return text[:number]
    return text
