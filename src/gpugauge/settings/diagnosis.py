"""Thresholds of the diagnosis rules: one field a threshold, its unit in its name.

A rule `starved` with a threshold on a share reads `starved_idle_ratio` from here;
see CONTRIBUTING.md, "A diagnosis rule".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisSettings:
    """Thresholds of the diagnosis rules."""
