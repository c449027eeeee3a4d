"""Colours of a terminal; none where there is no terminal, or NO_COLOR is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpugauge.model.finding import Severity

_CODES = {Severity.CRITICAL: "1;31", Severity.WARNING: "33", Severity.INFO: "36"}
_FAINT, _BOLD = "2", "1"


@dataclass(frozen=True, slots=True)
class Colour:
    """What a text looks like."""

    on: bool

    def severity(self, severity: Severity, text: str) -> str:
        """Return a text in the colour of how much it matters."""
        return self._in(_CODES[severity], text)

    def faint(self, text: str) -> str:
        """Return a text that matters less."""
        return self._in(_FAINT, text)

    def bold(self, text: str) -> str:
        """Return a text that stands out."""
        return self._in(_BOLD, text)

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text


def colour_for(terminal: bool, environ: Mapping[str, str]) -> Colour:
    """Return whether to colour: https://no-color.org, and terminals that are none."""
    return Colour(terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")
