"""Under which name gpugauge was started: as itself, or as a plugin of kubectl."""

from __future__ import annotations

import sys
from pathlib import Path

PLUGIN = "kubectl-gpugauge"
"""kubectl finds a plugin by its file's name: `kubectl gpugauge` starts this one."""


def is_plugin() -> bool:
    """Tell whether kubectl started this, or somebody under the plugin's name."""
    return Path(sys.argv[0]).name == PLUGIN


def name() -> str:
    """Return what a person types to start it."""
    return PLUGIN.replace("-", " ") if is_plugin() else "gpugauge"
