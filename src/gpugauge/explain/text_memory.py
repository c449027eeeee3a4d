"""Memory and contexts for people: what was asked for, what is held, and where the rest sits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gpugauge.explain.report import ContextLine, DeviceMemory, MemoryAccount, Report
from gpugauge.units import bytes_text, duration_text

WIDTH = 80
_COLUMNS = ("requested", "peak", "held", "context", "rounding", "rest")


def memory_lines(report: Report) -> Iterator[str]:
    """Yield the lines about memory and contexts, none where nothing is known."""
    if report.devices:
        yield ""
        yield "devices"
        for device in report.devices:
            yield from _device(device)
    if report.memory:
        yield ""
        yield f"{'memory of':<20}" + "".join(f"{name:>10}" for name in _COLUMNS)
        for account in report.memory:
            yield from _account(account)
    if report.contexts:
        yield ""
        yield "contexts"
        for line in report.contexts:
            yield from _context(line)


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else bytes_text(size_bytes)


def _device(one: DeviceMemory) -> Iterator[str]:
    told = (
        f"{one.gpu_uuid} {one.model}: {_size(one.used_bytes)} used of {_size(one.total_bytes)}, "
        f"{_size(one.held_bytes)} held by processes, {_size(one.reserved_bytes)} reserved by "
        f"the driver, compute mode {one.compute_mode or 'unknown'}"
    )
    yield from textwrap.wrap(told, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _account(one: MemoryAccount) -> Iterator[str]:
    name = f"  {one.pid} {one.command or '(unknown)'}"[:19] if one.pid else "  all of the pod"
    sizes = (
        one.requested_bytes,
        one.peak_bytes,
        one.held_bytes,
        one.context_bytes,
        one.rounding_bytes,
        one.rest_bytes,
    )
    yield f"{name:<20}" + "".join(f"{_size(size):>10}" for size in sizes)
    where = f"on {one.gpu_uuid}" + (f", pod {one.pod}" if one.pod else "")
    families = [
        f"{f.family.replace('_', ' ')} {_size(f.requested_bytes)} (peak {_size(f.peak_bytes)})"
        for f in one.families
    ]
    for told in (where, ", ".join(families), "; ".join(one.notes)):
        if told:
            yield from textwrap.wrap(told, WIDTH, initial_indent="    ", subsequent_indent="    ")


def _context(one: ContextLine) -> Iterator[str]:
    count = f"{one.contexts} contexts" if one.contexts > 1 else "1 context"
    age = "since before the agent saw it"
    if one.oldest_ns is not None:
        age = f"the oldest open for {duration_text(one.oldest_ns)}"
        if one.contexts > 1 and one.newest_ns is not None:
            age += f", the newest for {duration_text(one.newest_ns)}"
    who = f" of {one.pod}" if one.pod else ""
    told = f"pid {one.pid} ({one.command}){who}: {count} on {one.gpu_uuid}, {age}"
    yield from textwrap.wrap(told, WIDTH, initial_indent="  ", subsequent_indent="    ")
