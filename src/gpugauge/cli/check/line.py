"""One line of `gpugauge check`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpugauge.cli.terminal.table import visible

LIMIT = 1_000
"""Characters of a line: parts of it come from others."""


class State(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    WARN = "warn"
    """The agent runs, and something is missing from what it shows."""
    NOT_OFFERED = "not offered"
    """This Linux does not have it, and the agent does without."""
    NOT_SEEN = "not seen"
    """It could not be looked at."""
    FAILED = "failed"
    """The agent cannot run, does not answer, or cannot trace this library."""


@dataclass(frozen=True, slots=True)
class Line:
    """What was looked at, how it stands, and what to do."""

    state: State
    subject: str
    what: str = ""
    """What was found, one sentence or a few words."""
    remedy: str = ""

    def __str__(self) -> str:
        told = visible(" ".join(part for part in (self.what, self.remedy) if part), LIMIT)
        return f"{self.state:<12}{visible(self.subject):<24}{told}".rstrip()
