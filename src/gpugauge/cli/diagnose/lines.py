"""Which line of a Python program waits: sampled for findings about waiting."""

from __future__ import annotations

from dataclasses import replace

from gpugauge.diagnosis.python_stack import StackSampler
from gpugauge.errors import UnavailableError
from gpugauge.model.finding import Finding

RULES = frozenset(
    {"added_synchronization", "hang", "transfer_bound", "allocator_churn", "rank_straggler"}
)
"""Rules whose cause is a line of the program."""
LIMIT_PROCESSES = 4


def with_lines(
    findings: tuple[Finding, ...], sampler: StackSampler | None = None
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return the findings with lines, and notes on what could not be sampled."""
    sampler = sampler or StackSampler()
    made, notes, left = [], [], LIMIT_PROCESSES
    for finding in findings:
        lines = finding.lines
        if finding.rule in RULES and finding.pids and not lines and left > 0:
            left -= 1
            try:
                lines = sampler.lines(finding.pids[0])
            except UnavailableError as error:
                notes.append(str(error))
        made.append(replace(finding, lines=lines))
    return tuple(made), tuple(notes)
