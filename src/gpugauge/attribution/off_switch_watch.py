"""The places that can switch this node's probes off, each watched in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpugauge.attribution.cluster import Cluster
from gpugauge.attribution.off_switch import (
    ANNOTATION,
    NODES_KEY,
    PROBES_KEY,
    OffSwitchSink,
    Reader,
    Values,
    decode_config_map,
    decode_node,
    names_node,
    says_off,
)
from gpugauge.attribution.reflector import Reflector
from gpugauge.attribution.watch_limits import WatchLimits
from gpugauge.model.cluster import OffSwitch
from gpugauge.settings import OffSwitchSettings

NODES_PATH = "/api/v1/nodes"
LIMITS = WatchLimits(watch_seconds=60.0, silence_seconds=70.0, backoff_last_seconds=15.0)
"""Shorter than of pods: who switches off waits for it."""
STOP_SECONDS = 1.0
"""A thread that connects in vain is not waited for: probes are to be taken off."""
NO_NODE = "No node has the name of this one. Give --node-name as `kubectl get nodes` shows it."


class OffSwitchWatch:
    """One place that is watched."""

    def __init__(
        self,
        source: str,
        where: str,
        sink: OffSwitchSink,
        reflector: Reflector[tuple[str, Values]],
        absent: str = "",
    ) -> None:
        """Take how to watch.

        Args:
            source: `node` or `config_map`.
            where: The place, for people.
            sink: Keeps what was said.
            reflector: Fills the sink.
            absent: What to say when the object is not there; "" where that is usual.
        """
        self.source = source
        self.where = where
        self._sink = sink
        self._reflector = reflector
        self._absent = absent
        self.start = reflector.start
        self.stop = partial(reflector.stop, STOP_SECONDS)

    @property
    def heard(self) -> bool:
        """It was read once, or there was a reason why not."""
        return self._reflector.lists > 0 or bool(self._reflector.error)

    @property
    def state(self) -> OffSwitch:
        """What it says now."""
        listed = self._reflector.lists > 0
        absent = self._absent if listed and not self._sink.present else ""
        return OffSwitch(
            source=self.source,
            off=self._sink.off,
            malformed=self._sink.malformed,
            error=self._reflector.error or absent or ("" if listed else "It was not read yet."),
        )


def off_switches(
    cluster: Cluster,
    settings: OffSwitchSettings,
    changed: Callable[[], None],
    limits: WatchLimits | None = None,
) -> tuple[OffSwitchWatch, ...]:
    """Return what is to be watched; nothing is where the settings name nothing.

    Args:
        cluster: How the API server is reached.
        settings: Which places.
        changed: Called, from a thread of a watch, when one begins or ceases to say off.
        limits: Times and bounds.
    """
    limits = limits or LIMITS
    found = []
    if settings.node_annotation:
        sink = OffSwitchSink(cluster.node_name, decode_node, {ANNOTATION: says_off}, changed)
        nodes = Reflector(
            NODES_PATH,
            sink,
            # A whole node is tens of kilobytes: its images, its state.
            partial(cluster.connect, limits.read_seconds, metadata_only=True),
            params={"fieldSelector": f"metadata.name={cluster.node_name}"},
            limits=limits,
        )
        where = f"the annotation {ANNOTATION} of this node"
        found.append(OffSwitchWatch("node", where, sink, nodes, NO_NODE))
    if settings.config_map:
        namespace, _, name = settings.config_map.partition("/")
        here: Reader = partial(names_node, node=cluster.node_name)
        readers = {PROBES_KEY: says_off, NODES_KEY: here}
        sink = OffSwitchSink(name, decode_config_map, readers, changed)
        maps = Reflector(
            f"/api/v1/namespaces/{namespace}/configmaps",
            sink,
            partial(cluster.connect, limits.read_seconds),
            params={"fieldSelector": f"metadata.name={name}"},
            limits=limits,
        )
        where = f"the ConfigMap {namespace}/{name}"
        found.append(OffSwitchWatch("config_map", where, sink, maps))
    return tuple(found)
