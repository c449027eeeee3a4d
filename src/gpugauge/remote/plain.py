"""Fields of foreign JSON: what is not there, or of another type, is empty."""

from __future__ import annotations

from typing import Any


def at(item: Any, *path: str) -> Any:
    """Return what lies at a path; None where nothing does."""
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def text(item: Any, *path: str) -> str:
    """Return a text at a path."""
    found = at(item, *path)
    return found if isinstance(found, str) else ""


def entries(item: Any, *path: str) -> list[Any]:
    """Return a list at a path."""
    found = at(item, *path)
    return found if isinstance(found, list) else []


def table(item: Any, *path: str) -> dict[str, Any]:
    """Return an object at a path."""
    found = at(item, *path)
    return found if isinstance(found, dict) else {}
