"""Why a pod is slow, from snapshots: history, what is usual, rules, findings."""

from gpugauge.diagnosis.engine import Engine

__all__ = ["Engine"]
