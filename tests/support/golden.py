"""The exposition of one hand-built snapshot, kept beside the tests and read by people."""

from __future__ import annotations

from pathlib import Path

from gpugauge.export.exposition import Exposition
from gpugauge.settings import PriceSettings, SeriesSettings
from tests.support.snapshots import busy_snapshot

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "metrics.golden.txt"


def golden_text() -> str:
    """Return /metrics of two pods that share a GPU, and a host process on another."""
    price = PriceSettings(currency="EUR", per_gpu_hour={"*H200*": 3.5})
    exposition = Exposition(SeriesSettings(launch_threads=True, per_owner=100), price=price)
    exposition.publish(busy_snapshot(agent_version="0.0.0"))
    return exposition.text().decode()
