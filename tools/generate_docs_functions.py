"""Write docs/functions.md from the function table; `--check` says whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from gpugauge.vendors import VENDORS, Vendor  # noqa: E402
from gpugauge.vendors.text import HEADER, cells  # noqa: E402

OUTPUT = ROOT / "docs" / "functions.md"

INTRODUCTION = """\
# Traced functions

Generated from `src/gpugauge/vendors` by `make generate`: change the table, not this page.

A function that a driver exports under several names has a row for each: `_v2` and later
for a changed signature, `_ptsz` and `_ptds` for programs built with a default stream per
thread. A name that a driver does not export is not attached; an exported name of a launch,
synchronize, copy or allocation family that has no row is reported by `gpugauge check`.

- **operation**: what the call is counted as. A poll is counted as ready or not ready by its answer.
- **recorded**: arguments are numbered from 1. A copy described by a struct is counted in the
  direction that the struct says. `legacy stream` and `per-thread stream` are the streams of
  calls that pass none.
- **probes**: without a return probe neither errors nor durations are known.
- **set**: `core` functions are attached first, and are all there is in perf mode; `hot` ones sit
  in a link of their own, so that their probes can be dropped alone.

## What is not seen

- Nodes switched off by `cuGraphNodeSetEnabled` are still counted as launched.
- Names without `_v2` that have one date from before CUDA 3.2, when addresses and sizes had
  32 bits: their calls are counted, device memory allocated by them is not followed by address.
- Captures into the command list of a graphics API (`cuStreamBeginCaptureToCig`): their launches
  count as launches.
- `cuCtxAttach` and `cuCtxDetach`, usage counts from before CUDA 4.0.
"""


def table(vendor: Vendor) -> str:
    """Return the rows of a vendor as a Markdown table."""
    lines = [f"## {vendor.name}: {len(vendor.functions)} names", ""]
    lines.append("| " + " | ".join(HEADER) + " |")
    lines.append("|" + "---|" * len(HEADER))
    for row, function in vendor.numbered():
        number, symbol, *rest = cells(row, function)
        lines.append("| " + " | ".join((number, f"`{symbol}`", *rest)) + " |")
    return "\n".join(lines)


def page() -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(table(vendor) for vendor in VENDORS)]) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        current = OUTPUT.read_text() if OUTPUT.exists() else ""
        sys.exit(0 if current == page() else f"docs/{OUTPUT.name} is stale: run make generate")
    OUTPUT.write_text(page())
