"""Add new names to docs/promises.txt; `--check` only compares.

The list only grows here. A promised name that is gone is an error in both ways of running: a line
leaves the file by hand, and docs/stability.md says when that may be.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from gpugauge.agent.bugreport import REPORT_PATH  # noqa: E402
from gpugauge.cli import COMMANDS  # noqa: E402
from gpugauge.codec.recording import RECORDING_VERSION  # noqa: E402
from gpugauge.errors import (  # noqa: E402
    EXIT_FOUND,
    EXIT_INTERNAL,
    EXIT_OK,
    EXIT_SETTING,
    EXIT_UNAVAILABLE,
    EXIT_UNSUPPORTED,
)
from gpugauge.explain import PATH as EXPLAIN_PATH  # noqa: E402
from gpugauge.export.exposition import Exposition  # noqa: E402
from gpugauge.export.metrics import METRICS  # noqa: E402
from gpugauge.export.pages import standard_pages  # noqa: E402
from gpugauge.model.finding import FINDING_VERSION, Finding  # noqa: E402
from gpugauge.model.snapshot import SNAPSHOT_VERSION, Snapshot  # noqa: E402
from gpugauge.settings import Settings  # noqa: E402
from gpugauge.settings.catalog import catalog  # noqa: E402

LIST = ROOT / "docs" / "promises.txt"


def offered() -> Iterator[str]:
    """Yield what this source offers, a line each."""
    for metric in METRICS:
        yield " ".join(["metric", metric.full_name, metric.kind.value, *metric.labels])
    for setting in catalog():
        yield f"setting {setting.key}"
    for command in COMMANDS:
        yield f"command {command}"
    settings = Settings()
    for path in (*standard_pages(Exposition(settings.series), settings), REPORT_PATH, EXPLAIN_PATH):
        yield f"page {path}"
    codes = (EXIT_OK, EXIT_FOUND, EXIT_SETTING, EXIT_UNSUPPORTED, EXIT_UNAVAILABLE, EXIT_INTERNAL)
    names = ("ok", "found", "setting", "unsupported", "unavailable", "internal")
    for code, name in zip(codes, names, strict=True):
        yield f"exit {code} {name}"
    yield f"recording {RECORDING_VERSION}"
    yield from fields("snapshot", SNAPSHOT_VERSION, Snapshot)
    yield from fields("finding", FINDING_VERSION, Finding)


def fields(document: str, version: int, owner: type) -> Iterator[str]:
    """Yield the fields of a JSON document of a version, those of its parts included."""
    seen: set[type] = set()
    left = [owner]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        hints = get_type_hints(one)
        for entry in dataclasses.fields(one):
            yield f"{document} {version} {one.__name__}.{entry.name}"
            left += parts(hints[entry.name])


def parts(hint: Any) -> list[type]:
    """Return the dataclasses within a type."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return [hint]
    return [found for inner in get_args(hint) for found in parts(inner)]


def kept(promise: str, have: set[str]) -> bool:
    """Return whether a promise is kept; more labels than were promised are no break of it."""
    kind, *words = promise.split()
    if kind in {"snapshot", "finding"}:
        version = {line.split()[1] for line in have if line.startswith(f"{kind} ")}
        if words[0] not in version:
            return True  # a promise about a version that is not written any more
    if kind != "metric":
        return promise in have
    for line in have:
        if line.split()[:3] == ["metric", *words[:2]]:
            return set(words[2:]) <= set(line.split()[3:])
    return False


def main() -> None:
    """Compare, and add what is new."""
    text = LIST.read_text() if LIST.exists() else ""
    promised = [line for line in text.splitlines() if line and not line.startswith("#")]
    have = list(offered())
    gone = [line for line in promised if not kept(line, set(have))]
    if gone:
        sys.exit("Promised and gone (docs/stability.md):\n" + "\n".join(gone))
    new = [line for line in have if line not in promised]
    if not new:
        return
    if "--check" in sys.argv:
        sys.exit(f"docs/promises.txt is stale about {new[0]!r}: run make generate")
    names = {tuple(line.split()[:2]) for line in new if line.startswith("metric ")}
    stays = [line for line in promised if tuple(line.split()[:2]) not in names]
    head = [line for line in text.splitlines() if line.startswith("#")]
    LIST.write_text("\n".join(head + sorted(stays + new)) + "\n")


if __name__ == "__main__":
    main()
