"""A row of the validation table: truth beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One comparison."""

    program: str
    what: str
    truth: str
    measured: str
    passed: bool

    @classmethod
    def equal(cls, program: str, what: str, truth: float, measured: float) -> Row:
        """Return a row that must be equal."""
        return cls(program, what, f"{truth:,}", f"{measured:,}", truth == measured)

    @classmethod
    def within(
        cls, program: str, what: str, truth: float, measured: float, low: float, high: float
    ) -> Row:
        """Return a row whose difference must lie between two bounds."""
        passed = low <= measured - truth <= high
        return cls(program, what, f"{truth:.3f}", f"{measured:.3f}", passed)

    def markdown(self) -> str:
        """Return it as a line of a table."""
        mark = "yes" if self.passed else "**no**"
        return f"| {self.program} | {self.what} | {self.truth} | {self.measured} | {mark} |"
