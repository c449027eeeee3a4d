"""Helpers that make a family of exported names out of one row.

A driver exports a function under several names: `_v2` and later for a changed
signature, `_ptsz` (per-thread stream, asynchronous) and `_ptds` (per-thread
default stream, synchronous) for programs built with a default stream per
thread. Each name is a symbol of its own, so each gets a row.

Positions and types are those of the CUDA driver API header; tests hold them
against the signatures that NVIDIA ships in cuda-bindings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpugauge.model.abi import StreamDefault
from gpugauge.model.function import Function

Rows = tuple[Function, ...]


def under(row: Function, *symbols: str) -> Rows:
    """Return the row, and the same row under each further name."""
    return (row, *(replace(row, symbol=symbol) for symbol in symbols))


def per_thread(rows: Function | Iterable[Function], suffix: str) -> Rows:
    """Return each row with the legacy stream as its default, then its per-thread twin."""
    found: list[Function] = []
    for row in (rows,) if isinstance(rows, Function) else rows:
        found.append(replace(row, stream_default=StreamDefault.LEGACY))
        found.append(
            replace(
                row,
                symbol=row.symbol + suffix,
                stream_default=StreamDefault.PER_THREAD,
                core=row.core and row.symbol in CORE_PER_THREAD,
            )
        )
    return tuple(found)


def ptsz(rows: Function | Iterable[Function]) -> Rows:
    """Return rows of asynchronous calls, each with its `_ptsz` twin."""
    return per_thread(rows, "_ptsz")


def ptds(rows: Function | Iterable[Function]) -> Rows:
    """Return rows of synchronous calls, each with its `_ptds` twin."""
    return per_thread(rows, "_ptds")


def legacy(row: Function, *symbols: str) -> Rows:
    """Return the row with the legacy stream as its default, under each name: no twin exists."""
    return under(replace(row, stream_default=StreamDefault.LEGACY), *symbols)


CORE_PER_THREAD = frozenset(
    {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "cuStreamSynchronize"}
)
"""Core rows whose per-thread twin is core too; perf mode has room for 40 names."""
