"""When a condition becomes a finding, and when a finding ends."""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.diagnosis.rule import LookAgain, Suspicion, Verdict
from gpugauge.model.finding import Finding
from gpugauge.settings import DiagnosisSettings

SECOND = 1_000_000_000


@dataclass(slots=True)
class RuleState:
    """One rule on one workload."""

    first_ns: int | None = None
    """Since when the condition holds."""
    last_ns: int = 0
    """When it was last seen to hold."""
    opened_ns: int | None = None
    since_unix_ns: int = 0
    found_unix_ns: int = 0
    keep_seconds: float = 0.0
    harm: bool = False
    finding: Finding | None = None
    lacked: str = ""

    @property
    def is_open(self) -> bool:
        """A finding is shown."""
        return self.opened_ns is not None

    def suspects(self) -> bool:
        """The condition holds now, and means harm."""
        return self.first_ns is not None and self.harm

    def move(
        self, verdict: Verdict, now_ns: int, row_seconds: float, settings: DiagnosisSettings
    ) -> bool:
        """Take an answer of the rule; True when a finding opens now."""
        if isinstance(verdict, Suspicion):
            self.lacked, self.harm = "", verdict.harm
            self.keep_seconds = max(verdict.keep_seconds, settings.clear_seconds)
            if self.first_ns is None:
                self.first_ns = now_ns
            self.last_ns = now_ns
            if self.is_open:
                return False
            # A row of 15 s that shows it has held for 15 s, or most of them.
            held = (now_ns - self.first_ns) / SECOND + row_seconds
            if verdict.at_once or held >= settings.confirm_seconds * verdict.confirm_ratio:
                self.opened_ns = now_ns
                return True
            return False
        self.lacked = verdict.lacked if isinstance(verdict, LookAgain) else ""
        self.first_ns = None
        if self.is_open and now_ns - self.last_ns >= self.keep_seconds * SECOND:
            self.opened_ns, self.finding = None, None
        return False
