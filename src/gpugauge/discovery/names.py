"""Cleaning of names that tenants choose: workloads, functions, pods, paths."""

from __future__ import annotations

import html
import unicodedata

NAME_LIMIT = 128
"""Characters kept of a name."""

_CUT = "…"
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories that show nothing or steer what shows: control characters
(ANSI escapes begin with one), format characters (which turn the direction of
text), surrogates, private and unassigned ones, line and paragraph separators."""


def clean(name: str | bytes, limit: int = NAME_LIMIT) -> str:
    """Return a foreign name as one line of visible text.

    What would steer a terminal is replaced by `?`, so that it cannot be
    mistaken for part of another name. Cleaning twice changes nothing.

    Args:
        name: The name; bytes are read as UTF-8, the undecodable shown as `?`.
        limit: Characters kept; a longer name ends in an ellipsis.
    """
    if isinstance(name, bytes):
        # Four bytes a character at most: no need to decode a longer one.
        name = name[: 4 * (limit + 1)].decode("utf-8", "replace").replace("\ufffd", "?")
    if len(name) > limit:
        name = name[: max(limit - 1, 0)] + _CUT[:limit]
    return "".join("?" if unicodedata.category(each) in _HIDDEN else each for each in name)


def for_html(name: str | bytes) -> str:
    """Return a cleaned name for HTML text or a quoted attribute."""
    return html.escape(clean(name), quote=True)
