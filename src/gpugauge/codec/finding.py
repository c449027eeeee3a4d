"""Findings as JSON and back: what /api/v1/findings and `gpugauge diagnose --json` write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpugauge.codec.snapshot import from_plain, to_plain
from gpugauge.errors import ForeignDataError
from gpugauge.model.finding import FINDING_VERSION, Finding

LIMIT_BYTES = 16 * 1024 * 1024
_NAMED = ("severity", "confidence")
"""Enums whose values people read: written as `warning`, not as `WARNING`."""


def dump_findings(findings: Iterable[Finding], lacked: Iterable[str] = ()) -> bytes:
    """Return the findings as one JSON object, without a line's end.

    Args:
        findings: the most important first.
        lacked: what rules could not see at their last look, a sentence each.
    """
    listed = []
    for finding in findings:
        plain: dict[str, Any] = to_plain(Finding, finding)
        listed.append(plain | {name: plain[name].lower() for name in _NAMED})
    document = {"version": FINDING_VERSION, "findings": listed, "lacked": list(lacked)}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def load_findings(data: bytes) -> tuple[Finding, ...]:
    """Return the findings that these bytes hold.

    Raises:
        ForeignDataError: they are none, of another version, or beyond a bound.
    """
    if len(data) > LIMIT_BYTES:
        raise _off(f"{len(data)} bytes are over the limit of {LIMIT_BYTES}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _off("not JSON") from error
    if not isinstance(document, dict) or document.get("version") != FINDING_VERSION:
        raise _off(f"not of version {FINDING_VERSION}")
    listed = document.get("findings")
    if not isinstance(listed, list):
        raise _off("no list of findings")
    return tuple(_finding(plain) for plain in listed)


def load_lacked(data: bytes) -> tuple[str, ...]:
    """Return what rules could not see, of bytes that `load_findings` accepts."""
    listed = json.loads(data).get("lacked")
    return tuple(str(text)[:300] for text in listed[:100]) if isinstance(listed, list) else ()


def _finding(plain: Any) -> Finding:
    if not isinstance(plain, dict):
        raise _off("an entry is not an object")
    named = {n: plain[n].upper() for n in _NAMED if isinstance(plain.get(n), str)}
    found = from_plain(Finding, plain | named)
    assert isinstance(found, Finding)  # noqa: S101 - for the type checker
    return found


def _off(what: str) -> ForeignDataError:
    return ForeignDataError(
        f"These are not findings: {what}.", "Take them from /api/v1/findings or diagnose --json."
    )
