"""What the agent takes from Kubernetes and gives to it, beside pods.

The off switch of its node, Events for findings, the load score: each has threads of its own,
and the tick only hands over what it has seen.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from gpugauge.agent.load_score import LoadScoreWriter
from gpugauge.agent.pod_events import PodEventWriter
from gpugauge.agent.switch import Switch
from gpugauge.attribution.attribution import Attribution
from gpugauge.attribution.cluster_writer import ClusterWriter
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

LOG = logging.getLogger(__name__)


class ClusterSide:
    """The agent's side towards the cluster; outside one, the signals alone."""

    def __init__(self, settings: Settings, switch: Switch) -> None:
        """Take what was switched on; nothing is opened before `start`."""
        self._settings = settings
        self._switch = switch
        self._events: PodEventWriter | None = None
        self._score: LoadScoreWriter | None = None
        self._broken = False

    def start(self, attribution: Attribution) -> bool:
        """Begin; return whether the probes of this node may be put in."""
        cluster, settings = attribution.cluster, self._settings
        if not cluster.asked:
            return not self._switch.off
        from gpugauge.attribution.off_switch_watch import off_switches

        self._switch.watch(off_switches(cluster, settings.off_switch, self._switch.apply))
        if settings.pod_events.enabled:
            self._events = PodEventWriter(
                settings.pod_events, ClusterWriter(cluster), attribution.pod, cluster.node_name
            )
        if settings.load_score.enabled:
            self._score = LoadScoreWriter(settings.load_score, ClusterWriter(cluster))
        return not self._switch.off

    def observe(self, snapshot: Snapshot, findings: Sequence[Finding]) -> Snapshot:
        """Hand over what a tick has seen; return the snapshot with what is told of this side."""
        health = replace(snapshot.agent, off_switches=self._switch.report())
        snapshot = replace(snapshot, agent=health)
        if self._broken:
            return snapshot
        try:
            return self._hand_over(snapshot, findings)
        except Exception:  # counts matter more than what is made of them
            LOG.exception("Events and the load score have a fault, and are off until a restart.")
            self._broken = True
            return snapshot

    def _hand_over(self, snapshot: Snapshot, findings: Sequence[Finding]) -> Snapshot:
        health = snapshot.agent
        if self._events is not None:
            self._events.observe(findings)
            health = replace(health, pod_events=self._events.state)
        if self._score is not None:
            self._score.observe(snapshot)
            health = replace(health, load_score=self._score.state)
        return replace(snapshot, agent=health)

    def close(self) -> None:
        """End it, and take the load score off."""
        if self._score is not None:
            self._score.close()
        if self._events is not None:
            self._events.close()
        self._switch.close()
