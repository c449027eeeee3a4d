"""`gpugauge functions [LIBRARY]`: the function table, and each function's site in a library."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.names import clean
from gpugauge.errors import EXIT_FOUND, EXIT_OK, ForeignDataError, SettingError
from gpugauge.model.function import Function
from gpugauge.model.library import Library, Site, SiteKind
from gpugauge.vendors import VENDORS, Vendor

HELP = "Show the traced functions; with a library, where each one's probe goes in it"
EXAMPLES = """\
examples:
  gpugauge functions
  gpugauge functions /usr/lib/x86_64-linux-gnu/libcuda.so.1   # exit code 1: not all have a site
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the library and the form."""
    parser.add_argument(
        "library", nargs="?", default="", metavar="LIBRARY", help="a driver library"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the table; 1 when an exported function has no legal site or no row."""
    if not arguments.library:
        _print(rows(), arguments.json)
        return EXIT_OK
    path = Path(arguments.library).resolve()
    vendor = vendor_of(path.name)
    try:
        library = Inspector(vendor).inspect(str(path), shown_path=arguments.library).library
    except ForeignDataError as error:
        raise ForeignDataError(
            f"{clean(arguments.library)} cannot be traced: {error.sentence}",
            error.next_step or "Give the driver's own library, whole and not stripped of .dynsym.",
        ) from error
    _print(rows(library), arguments.json)
    for name in library.unknown_symbols if not arguments.json else ():
        print(f"{name}: exported, and in no row of the table")
    refused = [site for site in library.sites if site.kind is SiteKind.NONE]
    return EXIT_FOUND if refused or library.unknown_symbols else EXIT_OK


def vendor_of(file_name: str) -> Vendor:
    """Return whose library a file is by its name.

    Raises:
        SettingError: nobody's.
    """
    for vendor in VENDORS:
        if vendor.is_library(file_name):
            return vendor
    raise SettingError(
        f"{file_name} is not named like a driver library.", "Give one, such as libcuda.so.1."
    )


def rows(library: Library | None = None) -> list[dict[str, Any]]:
    """Return one plain row a function: of the whole table, or of a library's vendor."""
    sites = {site.symbol: site for site in library.sites} if library else {}
    vendors = [v for v in VENDORS if library is None or v.name == library.vendor]
    return [
        _row(vendor, number, function)
        | ({"site": _site(sites.get(function.symbol))} if library else {})
        for vendor in vendors
        for number, function in vendor.numbered()
    ]


def _row(vendor: Vendor, number: int, function: Function) -> dict[str, Any]:
    return {
        "vendor": vendor.name,
        "row": number,
        "symbol": function.symbol,
        "counted_as": function.slot.name.lower(),
        "probes": "entry and return" if function.returns else "entry",
    }


def _site(site: Site | None) -> str:
    if site is None:
        return "not exported"
    if site.kind is SiteKind.NONE:
        return f"no legal site: {site.reason}"
    return f"{site.kind} at {site.file_offset:#x}"


def _print(table: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(table, indent=1))
        return
    for row in table:
        line = f"{row['row']:4} {row['symbol']:42} {row['counted_as']:16} {row['probes']:17}"
        print(f"{line} {row.get('site', '')}".rstrip())
