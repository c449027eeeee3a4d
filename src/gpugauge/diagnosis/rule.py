"""What a rule is, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpugauge.model.finding import Evidence, Party, Severity

if TYPE_CHECKING:
    from gpugauge.diagnosis.case import Case


@dataclass(frozen=True, slots=True)
class Fine:
    """Nothing of the kind."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Cannot tell now."""

    lacked: str
    """What was not there, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """The condition holds; if it goes on holding, it is a finding."""

    severity: Severity
    sentence: str
    """Without whom it is about: that is put before it."""
    remedy: str
    evidence: tuple[Evidence, ...]
    explained_ratio: float
    """Share of time, 0 to 1."""
    parties: tuple[Party, ...] = ()
    pids: tuple[int, ...] = ()
    lacked: tuple[str, ...] = ()
    since_seconds: float | None = None
    """Seconds ago that it began, where the rule knows; else the history is asked."""
    at_once: bool = False
    """No need to see it for longer: it has happened, or the rule has waited by itself."""
    confirm_ratio: float = 1.0
    """How much longer than usual it must hold, where the harm is small."""
    keep_seconds: float = 0.0
    """How long it is shown after it was last seen, if longer than usual."""
    harm: bool = True
    """False: a state, which does not keep its windows from being learned as usual."""


Verdict = Fine | LookAgain | Suspicion
FINE = Fine()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One file of `diagnosis/rules/`."""

    id: str
    title: str
    needs: tuple[str, ...]
    """Signals, by name."""
    settings: tuple[str, ...]
    """Names of its thresholds in DiagnosisSettings."""
    meaning: str
    """What it means: the first part of its paragraph in docs/rules.md."""
    remedy: str
    wrong_when: str
    absorbs: tuple[str, ...] = ()
    """Rules that see the same cause from another side: their findings become part of this."""
    check: Callable[[Case], Verdict]
