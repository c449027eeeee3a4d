"""The pinned packages of the image: what `make pin` wrote, read back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PIN = re.compile(r"([a-z0-9][a-z0-9.-]*)==(\S+) \\")
HASH = re.compile(r"    --hash=(sha256:[0-9a-f]{64})(?: \\)?")
NEEDED_BY = re.compile(r"    #(?: via|  ) ([a-z0-9][a-z0-9.-]*)(?: \(.*\))?")
IGNORED = re.compile(r"#.*|    # via|    #(?: via|  ) -r \S+|")


@dataclass(slots=True)
class Pin:
    """One package at one version."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)
    """Of every file of it that may be installed."""
    needed_by: list[str] = field(default_factory=list)
    """Names of packages; none where a file names it itself."""


def read_pins(path: Path) -> list[Pin]:
    """Return the pins of a requirements file, in its order.

    Raises:
        ValueError: A line is something else than a pin, so that not all is pinned.
    """
    pins: list[Pin] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := PIN.fullmatch(line):
            pins.append(Pin(found[1], found[2]))
        elif pins and (found := HASH.fullmatch(line)):
            pins[-1].hashes.append(found[1])
        elif pins and (found := NEEDED_BY.fullmatch(line)):
            pins[-1].needed_by.append(found[1])
        elif not IGNORED.fullmatch(line):
            raise ValueError(f"{path.name}, line {number} is no pin with hashes: {line!r}")
    return pins
