"""What `top` writes: the table, the agents that did not answer, and how it was measured."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime

from gpugauge.cli.target import Target
from gpugauge.cli.terminal.colour import Colour
from gpugauge.cli.terminal.table import cut, visible
from gpugauge.cli.top.gpus import GpuRow, gpu_rows
from gpugauge.cli.top.look import Look
from gpugauge.cli.top.rows import Row
from gpugauge.cli.top.table import gpu_table, pod_table

SHOWN_SILENT = 20
SIMULATED = "SIMULATED: figures of the simulated driver, not of a GPU."


def page(
    look: Look, rows: Sequence[Row], what: str, wanted: Target, *, room: int, colour: Colour
) -> tuple[list[str], list[str], list[str]]:
    """Return the head, the rows and the foot, as lines of at most `room` columns."""
    if what == "nodes":
        lines = gpu_table(gpus_of(look, rows), room, colour)
    else:
        lines = pod_table(
            rows,
            room,
            colour,
            namespaces=not wanted.namespace,
            nodes=wanted.several_nodes,
        )
    head = [colour.bold(lines[0])]
    if look.simulated:
        head.insert(0, cut(SIMULATED, room))
    return head, lines[1:] or [_nothing(wanted, look)], _foot(look, room, colour)


def gpus_of(look: Look, rows: Sequence[Row]) -> list[GpuRow]:
    """Return the GPUs of every agent that answered."""
    found = []
    for answer in look.answers:
        if answer.value is not None:
            node = answer.value.snapshot.node
            found += gpu_rows(answer.value, [row for row in rows if row.node == node])
    return found


def silent(look: Look) -> list[tuple[str, str, str]]:
    """Return (node, why, what to do) of each agent that did not answer."""
    return [
        (answer.link.node or answer.link.where, answer.error.sentence, answer.error.next_step)
        for answer in look.answers
        if answer.error is not None
    ]


def _foot(look: Look, room: int, colour: Colour) -> list[str]:
    failed = silent(look)
    lines = [
        f"{node}: no figures: {why.rstrip('.')}.{f' {step}' if step else ''}"
        for node, why, step in failed[:SHOWN_SILENT]
    ]
    if len(failed) > SHOWN_SILENT:
        lines.append(f"and {len(failed) - SHOWN_SILENT} more nodes without figures")
    asked = len(look.answers)
    when = datetime.fromtimestamp(look.time_unix_seconds).astimezone()
    passed = look.interval_seconds
    over = "no rates yet" if passed is None else f"rates over {passed:.1f} s"
    nodes = f"{asked - len(failed)} of {asked} agents answered"
    summary = f"{nodes}, {over}, {when:%H:%M:%S}"
    # A line may be longer than the screen: what is to be done about it stands at its end.
    told = [part for line in lines for part in _folded(line, room)]
    return [*(colour.bold(line) for line in told), colour.faint(cut(summary, room))]


def _folded(line: str, room: int) -> list[str]:
    return textwrap.wrap(visible(line, limit=1_000), max(room, 20), subsequent_indent="  ")


def _nothing(wanted: Target, look: Look) -> str:
    where = f" in the namespace {wanted.namespace}" if wanted.namespace else ""
    if not look.answers:
        return f"(no pod{where} is on a node with an agent)"
    return f"(no process with GPU calls{where})"
