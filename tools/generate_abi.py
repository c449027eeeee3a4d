"""Write src/gpugauge/model/abi.py from the enums of bpf/abi.h.

Only our own header is read, so a small reader is enough: every enumerator has
its value written out (a rule of the header, and an error here).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "bpf" / "abi.h"
OUTPUT = ROOT / "src" / "gpugauge" / "model" / "abi.py"
CONSTANTS = {
    "limit",
    "place",
    "histogram",
    "issue",
    "cookie",
    "process_flag",
    "open_flag",
    "stream_number",
}


def enums(text: str) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return (name, [(enumerator, value)]) for each enum, in order."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = []
    for name, body in re.findall(r"enum (\w+) \{(.*?)\};", text, flags=re.S):
        members = []
        for item in filter(None, (" ".join(part.split()) for part in body.split(","))):
            match = re.fullmatch(r"(\w+) = (0x[0-9a-f]+|\d+)", item)
            if match is None:
                raise SystemExit(f"{HEADER.name}: enum {name}: write the value of {item!r} out")
            members.append((match[1], int(match[2], 0)))
        found.append((name, members))
    return found


def render(text: str) -> str:
    """Return the generated module."""
    lines = [
        '"""Enums and limits shared with the BPF programs: generated from bpf/abi.h."""',
        "",
        "from enum import IntEnum",
    ]
    constants: list[tuple[str, int]] = []
    for name, members in enums(text):
        if name in CONSTANTS:
            constants += members
            continue
        title = "".join(part.capitalize() for part in name.split("_"))
        lines += ["", "", f"class {title}(IntEnum):", f'    """enum {name}."""', ""]
        prefix = name.split("_")[0].upper() + "_"
        for member, value in members:
            short = member.removeprefix(prefix)
            if short != "COUNT":
                lines.append(f"    {short} = {value}")
            else:
                constants.append((member, value))
    lines += ["", ""]
    lines += [f"{name} = {value}" for name, value in constants]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    generated = render(HEADER.read_text())
    if "--check" in sys.argv:
        sys.exit(0 if OUTPUT.read_text() == generated else f"{OUTPUT.name} is stale: make generate")
    OUTPUT.write_text(generated)
