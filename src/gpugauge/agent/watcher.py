"""The diagnosis beside the tick: it may fail, the tick goes on."""

from __future__ import annotations

import logging
from dataclasses import replace

from gpugauge.diagnosis import Engine
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

OFF = "The diagnosis met a fault of its own and is off; the log of the agent tells."
LOG = logging.getLogger(__name__)


class Watcher:
    """Gives each snapshot to the diagnosis; after a fault of its own it stays silent."""

    def __init__(self, settings: Settings) -> None:
        """Begin with nothing known."""
        self._engine: Engine | None = Engine(settings)

    def observe(self, snapshot: Snapshot) -> tuple[Snapshot, tuple[Finding, ...], tuple[str, ...]]:
        """Return the snapshot with the size of the history, what is open, and what was lacking."""
        if self._engine is None:
            return snapshot, (), (OFF,)
        try:
            findings = self._engine.observe(snapshot)
        except Exception:  # counts matter more than their interpretation
            LOG.exception("The diagnosis has a fault and is off until the agent is restarted.")
            self._engine = None
            return snapshot, (), (OFF,)
        health = replace(snapshot.agent, history_bytes=self._engine.history_bytes)
        return replace(snapshot, agent=health), findings, self._engine.notes()
