"""Names that come from tenants, made safe to keep: short, and without control characters."""

from __future__ import annotations

NAME_LIMIT = 128
"""Longest name kept. Kubernetes allows 253 for pods; labels cut there still tell them apart."""


def clean(text: object, limit: int = NAME_LIMIT) -> str:
    """Return `text` without control characters and at most `limit` long; "" if it is no string."""
    if not isinstance(text, str):
        return ""
    cut = text[:limit]
    return cut if cut.isprintable() else "".join(c for c in cut if c.isprintable())
