"""What the agent takes from Kubernetes and gives to it, beside pods: for its own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffSwitch:
    """One place that can switch the probes of this node off."""

    source: str
    """`signal`, `node` or `config_map`."""
    off: bool
    """It says off now, or did when it could last be read."""
    malformed: int = 0
    """Values that were no word for on or off."""
    error: str = ""
    """Why it cannot be read; "" while it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvents:
    """Events on pods for findings, so far."""

    writes: Mapping[str, int]
    """By outcome: `created`, `updated`, `dropped`, `failed`."""
    error: str = ""
    """Why the last write failed; "" since one succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadScore:
    """The score of this node that the scheduler reads."""

    points: int | None
    """As it was computed last; None while it is not known."""
    writes: Mapping[str, int]
    """By outcome: `written`, `removed`, `failed`."""
    error: str = ""
    """Why the last write failed; "" since one succeeded."""
