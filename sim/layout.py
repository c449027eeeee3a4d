"""The layout of the state and oracle files, read from c/layout.h: one truth for C and Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEADER = Path(__file__).parent / "c" / "layout.h"
WORD = 8


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def _lists(text: str) -> dict[str, tuple[str, ...]]:
    joined = _without_comments(text).replace("\\\n", " ")
    found = re.findall(r"#define SIM_(\w+)_FIELDS\(F\)(.*)", joined)
    return {name.lower(): tuple(re.findall(r"F\((\w+)\)", body)) for name, body in found}


def _limits(text: str) -> dict[str, int]:
    body = re.search(r"enum sim_limit \{(.*?)\};", _without_comments(text), flags=re.S)
    if body is None:
        raise ValueError(f"{HEADER.name} has no enum sim_limit")
    pairs = re.findall(r"SIM_(\w+) = (\w+)", body[1])
    return {name: int(value, 0) for name, value in pairs}


TEXT = HEADER.read_text(encoding="ascii")
FIELDS = _lists(TEXT)
LIMITS = _limits(TEXT)


@dataclass(frozen=True, slots=True)
class Table:
    """An array of structs of u64 fields inside a file."""

    offset: int
    fields: tuple[str, ...]
    rows: int
    stride: int

    @property
    def end(self) -> int:
        """The offset after the last row."""
        return self.offset + self.rows * self.stride

    def at(self, row: int, field: str) -> int:
        """Return the offset of one field in the file."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        return self.offset + row * self.stride + self.fields.index(field) * WORD


def _table(offset: int, name: str, rows: int = 1, extra: int = 0) -> Table:
    fields = FIELDS[name]
    return Table(offset, fields, rows, len(fields) * WORD + extra)


STATE_HEADER = _table(0, "header")
CONFIG = _table(STATE_HEADER.end + LIMITS["LOCK_BYTES"], "config")
CONTROLS = _table(CONFIG.end, "control", LIMITS["SYMBOLS"])
DEVICES = _table(CONTROLS.end, "device", LIMITS["DEVICES"])
ROWS = _table(DEVICES.end, "row", LIMITS["ROWS"])
CHANNELS = _table(ROWS.end, "channel", LIMITS["CHANNELS"])
STATE_BYTES = CHANNELS.end

CODES = LIMITS["CODES"]
ORACLE_HEADER = _table(0, "oracle")
ORACLE_SYMBOLS = _table(ORACLE_HEADER.end, "symbol", LIMITS["SYMBOLS"], CODES * 2 * WORD)
