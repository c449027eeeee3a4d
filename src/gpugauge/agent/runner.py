"""`gpugauge run`: the agent with its server, until a signal ends it."""

from __future__ import annotations

import gc
import logging

from gpugauge.agent.agent import Agent
from gpugauge.agent.bugreport import REPORT_PATH, ReportPage
from gpugauge.agent.cluster_side import ClusterSide
from gpugauge.agent.explain_page import ExplainPage
from gpugauge.agent.lock import NodeLock
from gpugauge.agent.logs import start_logging
from gpugauge.agent.loop import Stop, run_ticks
from gpugauge.agent.pace import Pace
from gpugauge.agent.switch import Switch
from gpugauge.agent.watcher import Watcher
from gpugauge.ebpf.allocator import keep_small
from gpugauge.errors import EXIT_OK
from gpugauge.explain import PATH as EXPLAIN_PATH
from gpugauge.export.exposition import Exposition, nothing
from gpugauge.export.http import Page, Server
from gpugauge.export.pages import standard_pages
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

LOG = logging.getLogger(__name__)


def spare_garbage_collection() -> None:
    """Keep the cycle collector from walking what lives for ever, or dies without it.

    Snapshots are made of frozen values without cycles: counting references frees them. By
    default the collector looks at all of them several times a tick, a quarter of its cost.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run(settings: Settings) -> int:
    """Run the agent.

    Raises:
        GpugaugeError: It could not start; the sentence says why.
    """
    keep_small()
    lines = start_logging(settings).lines
    stop, switch = Stop(), Switch()
    side = ClusterSide(settings, switch)
    exposition = Exposition(settings.series, price=settings.price)
    with NodeLock():
        report = ReportPage(settings, exposition, lines)
        pages = standard_pages(exposition, settings)
        pages[REPORT_PATH] = Page(report)
        pages[EXPLAIN_PATH] = Page(ExplainPage(settings, exposition))
        server = Server(settings.listen, pages)
        try:
            agent = Agent(settings)
        except BaseException:
            server.close()
            raise
        report.agent = agent
        server.start()
        try:
            on = side.start(agent.attribution)
            agent.start(probes_on=on)
            switch.connect(lambda on: agent.libraries.turn(on=on), off=not on)
            spare_garbage_collection()
            LOG.info("serving on port %d", server.port)

            watcher = Watcher(settings)

            def publish(snapshot: Snapshot) -> bool:
                snapshot, findings, lacked = watcher.observe(snapshot)
                exposition.publish(side.observe(snapshot, findings), findings, lacked)
                return True

            pace = Pace(settings.tick_seconds, agent.wake)
            exposition.renew = pace.renew
            run_ticks(agent, stop.event, pace, publish, switch)
        finally:
            exposition.renew = nothing
            server.close()
            agent.close()
            side.close()
    return EXIT_OK
