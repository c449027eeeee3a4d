"""`gpugauge record`: snapshots into a file, one a line."""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path

from gpugauge.agent.agent import Agent
from gpugauge.agent.lock import NodeLock
from gpugauge.agent.logs import start_logging
from gpugauge.agent.loop import Stop, run_ticks
from gpugauge.agent.pace import Pace
from gpugauge.codec.recording import RecordingWriter
from gpugauge.errors import EXIT_OK
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

LOG = logging.getLogger(__name__)


def record(settings: Settings, path: Path, *, limit_bytes: int, for_seconds: float | None) -> int:
    """Record until a limit or a signal.

    Raises:
        GpugaugeError: The file cannot be written, or the agent could not start.
    """
    start_logging(settings)
    stop = Stop()
    ends = None if for_seconds is None else time.monotonic() + for_seconds
    with NodeLock(), RecordingWriter(path, limit_bytes) as writer:
        agent = Agent(settings)
        try:
            agent.start()

            def publish(snapshot: Snapshot) -> bool:
                return writer.write(snapshot) and (ends is None or time.monotonic() < ends)

            run_ticks(agent, stop.event, Pace(settings.tick_seconds, cpu_ratio=math.inf), publish)
        finally:
            agent.close()
        LOG.info("%s: %d snapshots, %d bytes", path, writer.snapshots, writer.size_bytes)
    return EXIT_OK
