"""The settings as a flat list, with their docstrings: for flags, variables, files and docs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, get_type_hints

from gpugauge.settings.tree import Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: where it lives and what it may be."""

    section: str
    """"" at the root."""
    name: str
    type: Any
    default: Any
    meaning: str
    low: float | None
    high: float | None
    pattern: str = ""
    """What a text must match as a whole; "" for any."""
    form: str = ""
    """The pattern, for people."""

    @property
    def key(self) -> str:
        """Its one word: `attach_mode`."""
        return f"{self.section}_{self.name}" if self.section else self.name

    @property
    def flag(self) -> str:
        """As a flag: `--attach-mode`."""
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """As an environment variable: `GPUGAUGE_ATTACH_MODE`."""
        return "GPUGAUGE_" + self.key.upper()


def _field_docstrings(owner: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    found = {}
    for statement, following in pairwise(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = following.value if isinstance(following, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[statement.target.id] = " ".join(value.value.split())
    return found


def _walk(owner: type, section: str) -> Iterator[Setting]:
    hints = get_type_hints(owner, vars(sys.modules[owner.__module__]))
    meanings = _field_docstrings(owner)
    for entry in dataclasses.fields(owner):
        hint = hints[entry.name]
        if dataclasses.is_dataclass(hint):
            yield from _walk(hint, entry.name)  # type: ignore[arg-type]
            continue
        factory = entry.default_factory
        default = entry.default if factory is dataclasses.MISSING else factory()
        yield Setting(
            section=section,
            name=entry.name,
            type=hint,
            default=default,
            meaning=meanings.get(entry.name, ""),
            low=entry.metadata.get("low"),
            high=entry.metadata.get("high"),
            pattern=entry.metadata.get("pattern", ""),
            form=entry.metadata.get("form", ""),
        )


@cache
def catalog() -> tuple[Setting, ...]:
    """Return every setting, in the order of the tree."""
    return tuple(_walk(Settings, ""))


@cache
def sections() -> dict[str, type]:
    """Return the class of each section by its name."""
    hints = get_type_hints(Settings)
    return {n: h for n, h in hints.items() if isinstance(h, type) and dataclasses.is_dataclass(h)}
