"""What the agent takes from Kubernetes and gives to it, beside pods: for its own metrics."""

from __future__ import annotations

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
