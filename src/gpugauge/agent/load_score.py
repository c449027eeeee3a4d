"""The load of this node as an annotation, for the scheduler's NodeMetadata plugin.

Written at most once in the setting's time, and only when it moved. Unknown is no
annotation: the plugin puts such nodes last (kubernetes-sigs/scheduler-plugins
pkg/nodemetadata), where 0 would put them first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from gpugauge.agent.load_points import LoadPoints
from gpugauge.attribution.api_server import sentence_of
from gpugauge.model.cluster import LoadScore
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import LoadScoreSettings

LOG = logging.getLogger(__name__)

ANNOTATION = "gpugauge.io/load-score"
STOP_SECONDS = 3.0
"""So long the end waits for the annotation to be taken off."""


class Writer(Protocol):
    """What annotates the node; may raise, see attribution.cluster_writer."""

    def annotate_node(self, key: str, value: str | None) -> None:
        """Set or remove an annotation of this node."""

    def rest(self) -> None:
        """Nothing is written for a while."""

    def interrupt(self) -> None:
        """End what waits."""


class LoadScoreWriter:
    """Computes at the tick, writes in a thread of its own."""

    def __init__(
        self,
        settings: LoadScoreSettings,
        writer: Writer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread."""
        self._seconds = settings.write_seconds
        self._hysteresis = settings.hysteresis_points
        self._writer = writer
        self._clock = clock
        self._load = LoadPoints(settings.write_seconds)
        self._wanted: int | None = None
        # A former run may have left one behind: whatever is known first is written.
        self._written: int | None = None
        self._sure = False
        self._tried_at = float("-inf")
        self._writes = dict.fromkeys(("written", "removed", "failed"), 0)
        self._error = ""
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="load-score", daemon=True)
        self._thread.start()

    @property
    def state(self) -> LoadScore:
        """What is known and was written so far."""
        return LoadScore(points=self._load.points, writes=dict(self._writes), error=self._error)

    def observe(self, snapshot: Snapshot) -> None:
        """Take the next snapshot; never waits."""
        self._load.observe(snapshot)
        if self._wake.is_set() or self._clock() - self._tried_at < self._seconds:
            return
        self._wanted = self._load.points
        if self._moved(self._wanted):
            self._tried_at = self._clock()
            self._wake.set()

    def close(self) -> None:
        """Take the annotation off, and end the thread."""
        self._stopping = True
        self._wake.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            self._writer.interrupt()

    def _moved(self, points: int | None) -> bool:
        if not self._sure or (points is None) is not (self._written is None):
            return True
        if points is None or self._written is None:
            return False
        return abs(points - self._written) >= self._hysteresis

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait()
            if self._stopping:
                break
            self._write(self._wanted)
            self._wake.clear()
        self._write(None)

    def _write(self, points: int | None) -> None:
        try:
            self._writer.annotate_node(ANNOTATION, None if points is None else str(points))
        except Exception as error:  # whatever a server, or what is before it, can cause
            sentence = sentence_of(error)
            if sentence != self._error:
                LOG.warning("the load score was not written: %s", sentence)
            self._error, self._sure = sentence, False
            self._writes["failed"] += 1
        else:
            self._error, self._written, self._sure = "", points, True
            self._writes["removed" if points is None else "written"] += 1
        finally:
            self._writer.rest()
