"""`gpugauge run`: the agent with its server, until a signal ends it."""

from __future__ import annotations

import logging

from gpugauge.agent.agent import Agent
from gpugauge.agent.lock import NodeLock
from gpugauge.agent.logs import start_logging
from gpugauge.agent.loop import Stop, run_ticks
from gpugauge.agent.switch import Switch
from gpugauge.agent.watcher import Watcher
from gpugauge.errors import EXIT_OK
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Server
from gpugauge.export.pages import standard_pages
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

LOG = logging.getLogger(__name__)


def run(settings: Settings) -> int:
    """Run the agent.

    Raises:
        GpugaugeError: It could not start; the sentence says why.
    """
    start_logging(settings)
    stop, switch = Stop(), Switch()
    exposition = Exposition(settings.series)
    with NodeLock():
        server = Server(settings.listen, standard_pages(exposition, settings))
        try:
            agent = Agent(settings)
        except BaseException:
            server.close()
            raise
        server.start()
        try:
            agent.start()
            LOG.info("serving on port %d", server.port)

            watcher = Watcher(settings)

            def publish(snapshot: Snapshot) -> bool:
                exposition.publish(*watcher.observe(snapshot))
                return True

            run_ticks(agent, stop.event, settings.tick_seconds, publish, switch)
        finally:
            server.close()
            agent.close()
    return EXIT_OK
