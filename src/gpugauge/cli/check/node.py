"""What `gpugauge check` says of the node's way to a GPU: what `gpugauge explain --node` finds."""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.cli.check.line import Line, State
from gpugauge.explain.gather.look import look
from gpugauge.explain.report import Report, Verdict
from gpugauge.explain.sources import of_command
from gpugauge.explain.walk import walk
from gpugauge.settings import Settings

TOLD = ("loaded", "versions", "nvml")
"""Checks whose findings `check` tells by itself, as they bear on the agent."""


def node_lines(settings: Settings) -> Iterator[Line]:
    """Yield a line for each thing that would keep a pod on this node from its GPU."""
    yield from report_lines(walk(look("", of_command(settings))))


def report_lines(report: Report) -> Iterator[Line]:
    """Yield a line for each finding of a report; one line where there is none."""
    found = False
    for step in report.steps:
        for answer in step.answers:
            if answer.verdict in (Verdict.BROKEN, Verdict.WARNING) and answer.check not in TOLD:
                found = True
                yield Line(State.WARN, step.layer.value, f"{answer.seen}.", f"{answer.next_step}.")
    if not found and any(step.verdict is Verdict.OK for step in report.steps):
        seen = ", ".join(s.layer.value for s in report.steps if s.verdict is Verdict.OK)
        yield Line(State.OK, "way to a GPU", seen)
