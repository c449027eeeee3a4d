"""Where the traced functions of a driver library are probed: ELF and entries together.

Runs in the child that reads foreign files: its input is hostile, its output bounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpugauge.codec import elf as elves
from gpugauge.codec.elf import Elf, Symbol
from gpugauge.codec.x86 import WINDOW_BYTES, choose_site
from gpugauge.discovery import canary
from gpugauge.errors import ForeignDataError
from gpugauge.model.library import Site, SiteKind

UNKNOWN_LIMIT = 64
"""Names of unknown functions that are reported of one library."""
CANARY_TRIES = 4096
SIMULATED_MARKER = "gpugauge_simulated_driver"
"""Exported by the simulated driver, so that its figures are never taken for a GPU's."""


@dataclass(frozen=True, slots=True)
class Sites:
    """What was found in one library."""

    sites: tuple[Site, ...]
    canary: Site | None
    exported: int
    unknown_symbols: tuple[str, ...]
    build_id: str
    simulated: bool = False


def find_sites(
    elf: Elf,
    functions: Sequence[str],
    watched: re.Pattern[str] | None = None,
    canaries: Sequence[str] = (),
    known: Collection[str] = (),
) -> Sites:
    """Find where each of the functions is probed.

    Args:
        elf: The library.
        functions: Symbols to probe; of several at one address the first is taken.
        watched: Names of the families that should be traced: others of them are reported.
        canaries: Preferred canaries, best first.
        known: Names that are left out on purpose, and so not reported.

    Raises:
        ForeignDataError: Not a shared library for x86-64, or malformed.
    """
    if elf.machine != elves.MACHINE_X86_64 or elf.type != elves.TYPE_SHARED:
        raise ForeignDataError("The file is not a shared library for x86-64.")
    exported = {
        symbol.name: symbol
        for symbol in elf.symbols(elves.SECTION_DYNSYM)
        if symbol.type == elves.SYMBOL_FUNCTION
        and symbol.section != elves.UNDEFINED_SECTION
        and symbol.binding in (elves.BIND_GLOBAL, elves.BIND_WEAK)
    }
    if not exported:
        raise ForeignDataError("The library exports no functions.")
    starts = _next_starts(exported.values())
    sites: list[Site] = []
    taken: set[int] = set()
    for name in dict.fromkeys(functions):
        symbol = exported.get(name)
        if symbol is None or symbol.value in taken:
            continue
        taken.add(symbol.value)
        sites.append(_site(elf, symbol, starts[symbol.value]))
    unknown = sorted(
        name
        for name, symbol in exported.items()
        if watched and watched.match(name) and name not in known and symbol.value not in taken
    )
    chosen = None
    for name in canary.choose(exported, functions, canaries)[:CANARY_TRIES]:
        symbol = exported[name]
        if symbol.value not in taken:
            site = _site(elf, symbol, starts[symbol.value])
            if site.kind is not SiteKind.NONE:
                chosen = site
                break
    return Sites(
        tuple(sites),
        chosen,
        len(exported),
        tuple(unknown[:UNKNOWN_LIMIT]),
        elf.build_id(),
        SIMULATED_MARKER in exported,
    )


def _next_starts(symbols: Collection[Symbol]) -> dict[int, int]:
    """Each function's address -> the next one's: no site may lie in another function."""
    addresses = sorted({symbol.value for symbol in symbols})
    return dict(zip(addresses, [*addresses[1:], 1 << 64], strict=True))


def _site(elf: Elf, symbol: Symbol, next_start: int) -> Site:
    room = min(WINDOW_BYTES, next_start - symbol.value, symbol.size or WINDOW_BYTES)
    offset = _executable_offset(elf, symbol.value, room)
    if offset is None:
        return Site(symbol.name, 0, SiteKind.NONE, "the symbol lies outside the code of the file")
    start, room = offset
    entry = choose_site(elf.read(start, room))
    return Site(symbol.name, start + entry.offset, entry.kind, entry.reason)


def _executable_offset(elf: Elf, address: int, room: int) -> tuple[int, int] | None:
    """Where an address lies in the file, and how much of `room` its segment has there."""
    for segment in elf.segments:
        if segment.type == elves.SEGMENT_LOAD and segment.flags & 1:  # PF_X
            inside = address - segment.address
            if 0 <= inside < segment.file_size:
                return segment.offset + inside, min(room, segment.file_size - inside)
    return None
