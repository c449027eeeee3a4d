"""Fields of settings that hold more than a type: bounds of a number, the form of a text."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def bounded(default: float, low: float, high: float) -> Any:
    """Return a field whose value must lie between `low` and `high`, both included."""
    return field(default=default, metadata={"low": low, "high": high})


def formed(default: str, pattern: str, form: str) -> Any:
    """Return a field whose text must match a pattern as a whole; `form` says it to people."""
    return field(default=default, metadata={"pattern": pattern, "form": form})
