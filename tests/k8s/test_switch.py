"""The off switch: real probes, in the real agent, whatever the API server does."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpugauge.agent.switch import Switch
from gpugauge.attribution.cluster import Cluster
from gpugauge.attribution.off_switch import ANNOTATION
from gpugauge.attribution.off_switch_watch import OffSwitchWatch, off_switches
from gpugauge.settings.kubernetes import OffSwitchSettings
from tests.k8s.conftest import SHORT
from tests.k8s.fakes.api_server import NODES
from tests.k8s.fakes.objects import NODE, config_map, node
from tests.k8s.fakes.waiting import until
from tests.k8s.fakes.writable import CONFIG_MAPS, WritableApiServer
from tests.linux.agents import AgentProcess, metrics
from tests.linux.test_agent import breakpoints
from tests.linux.tracing import OwnMachine

NAME, NAMESPACE = "gpugauge-probes", "gpugauge"
OFF = {ANNOTATION: "off"}


@pytest.fixture
def cluster() -> Iterator[WritableApiServer]:
    with WritableApiServer() as running:
        running.put(NODES, node())
        running.put(NODES, node("node-b", OFF))
        yield running


def say(cluster: WritableApiServer, **data: str) -> None:
    """Write the ConfigMap."""
    names = {key.replace("_", "-"): value for key, value in data.items()}
    cluster.put(CONFIG_MAPS, config_map(NAME, NAMESPACE, names))


class Watched:
    """Both places with short times, and how often they told of a change."""

    def __init__(self, cluster: WritableApiServer, folder: Path, **limits: float) -> None:
        way = Cluster(node_name=NODE, asked=True, kubeconfig=str(cluster.kubeconfig(folder)))
        self.changes = 0
        self.places = off_switches(
            way, OffSwitchSettings(), self.changed, dataclasses.replace(SHORT, **limits)
        )
        for place in self.places:
            place.start()

    def changed(self) -> None:
        self.changes += 1

    @property
    def off(self) -> set[str]:
        return {place.source for place in self.places if place.state.off}

    def error(self, source: str) -> str:
        return next(place.state.error for place in self.places if place.source == source)


@pytest.fixture
def watched(cluster, tmp_path) -> Iterator[Callable[..., Watched]]:
    made: list[OffSwitchWatch] = []

    def start(**limits: float) -> Watched:
        it = Watched(cluster, tmp_path, **limits)
        made.extend(it.places)
        return it

    yield start
    for place in made:
        place.stop()


def test_the_own_node_and_the_config_map_switch_off_and_on(cluster, watched):
    it = watched()
    until(lambda: all(place.heard for place in it.places))
    assert it.off == set()
    cluster.put(NODES, node(annotations=OFF))
    until(lambda: it.off == {"node"})
    say(cluster, probes="off")
    until(lambda: it.off == {"node", "config_map"})
    cluster.put(NODES, node())
    until(lambda: it.off == {"config_map"})
    cluster.delete(CONFIG_MAPS, config_map(NAME, NAMESPACE, {}))
    until(lambda: it.off == set())
    say(cluster, off_nodes=f"node-b {NODE}")
    until(lambda: it.off == {"config_map"})
    assert it.changes == 5
    cluster.put(CONFIG_MAPS, config_map("other", NAMESPACE, {"probes": "off"}))
    cluster.put(CONFIG_MAPS, config_map(NAME, "elsewhere", {"probes": "off"}))
    say(cluster)
    until(lambda: it.off == set())


def test_only_one_object_is_asked_for_and_of_the_node_only_metadata(cluster, watched):
    it = watched()
    until(lambda: cluster.count(NODES, "watch") and all(p.state.error == "" for p in it.places))
    asked = {
        path: params["fieldSelector"].removesuffix(f",metadata.namespace={NAMESPACE}")
        for path, params in cluster.requests
    }
    assert asked == {
        NODES: f"metadata.name={NODE}",
        f"/api/v1/namespaces/{NAMESPACE}/configmaps": f"metadata.name={NAME}",
    }
    assert cluster.partial == {(NODES, "list"), (NODES, "watch")}


@pytest.mark.parametrize("fault", ["silence", "reset", "malformed", "huge", "cut", 500, 503, 429])
@pytest.mark.parametrize("on", ["list", "watch"])
def test_a_fault_changes_nothing_and_costs_only_time(cluster, watched, on, fault):
    cluster.huge_bytes = 2 << 20
    cluster.put(NODES, node(annotations=OFF))
    it = watched(silence_seconds=0.4)
    until(lambda: it.off == {"node"} and cluster.count(NODES, "watch") == 1)
    cluster.fail(NODES, on, fault, times=3)
    cluster.stop()  # what it knew is kept
    until(lambda: it.error("node") != "")
    assert it.off == {"node"}
    cluster.put(NODES, node("node-b"))
    cluster.compact()  # and then everything is listed again
    cluster.start()
    until(lambda: not cluster.faults[NODES, on])
    assert it.off == {"node"}
    cluster.put(NODES, node())
    until(lambda: it.off == set())
    until(lambda: it.error("node") == "")
    assert it.changes == 2


def test_what_may_not_be_read_is_said_and_read_once_it_may(cluster, watched):
    cluster.forbidden = {NODES, CONFIG_MAPS}
    cluster.put(NODES, node(annotations=OFF))
    it = watched()
    until(lambda: "`list` and `watch` on nodes" in it.error("node"))
    until(lambda: "`list` and `watch` on configmaps" in it.error("config_map"))
    assert it.off == set()
    cluster.forbidden = set()
    until(lambda: it.off == {"node"})
    until(lambda: it.error("config_map") == "")


def test_a_node_that_is_not_there_is_said(cluster, watched):
    cluster.delete(NODES, node())
    it = watched()
    until(lambda: "--node-name" in it.error("node"))
    cluster.put(NODES, node(annotations=OFF))
    until(lambda: it.off == {"node"})
    assert it.error("node") == ""


def test_places_that_settings_leave_out_are_not_watched():
    way = Cluster(node_name=NODE, asked=True)
    none = OffSwitchSettings(node_annotation=False, config_map="")
    assert off_switches(way, none, lambda: None) == ()


def test_the_watch_turns_the_probes_by_itself_while_the_tick_stands_still(cluster, tmp_path):
    before = [(each, signal.getsignal(each)) for each in (signal.SIGUSR1, signal.SIGUSR2)]
    switch = Switch()
    turns: list[bool] = []
    way = Cluster(node_name=NODE, asked=True, kubeconfig=str(cluster.kubeconfig(tmp_path)))
    try:
        switch.watch(off_switches(way, OffSwitchSettings(), switch.apply, SHORT))
        switch.connect(turns.append, off=False)
        cluster.put(NODES, node(annotations=OFF))  # and nobody calls apply()
        until(lambda: turns == [False])
        cluster.put(NODES, node())
        until(lambda: turns == [False, True])
    finally:
        switch.close()
        for number, handler in before:
            signal.signal(number, handler)


# ---- the whole agent -----------------------------------------------------------


class Run:
    """An agent on a simulated driver, and the API server it asks."""

    def __init__(self, folder: Path, cluster: WritableApiServer, *flags: str) -> None:
        self.machine = OwnMachine(folder)
        self.agent = AgentProcess(
            folder,
            self.machine,
            "--kubernetes-mode=on",
            f"--kubernetes-kubeconfig={cluster.kubeconfig(folder)}",
            f"--kubernetes-kubelet-path={folder}",
            f"--node-name={NODE}",
            "--tick-seconds=0.2",
            *flags,
        )

    def probes(self, number: int) -> None:
        """Wait until so many of two functions have a breakpoint, in a process that is new."""
        until(lambda: breakpoints(self.machine) == number, seconds=30)

    def off(self) -> dict[str, float]:
        return self.by_source("agent_probes_switched_off")

    def by_source(self, name: str) -> dict[str, float]:
        self.agent.next_snapshot()
        found = metrics(self.agent.get("/metrics"), f"gpugauge_{name}")
        return {dict(key)["source"]: value for key, value in found.items()}

    def launched(self) -> float:
        self.agent.next_snapshot()
        return sum(metrics(self.agent.get("/metrics"), "gpugauge_launches_total").values())


@pytest.fixture
def run(tmp_path, cluster) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def start(*flags: str) -> Run:
        folder = tmp_path / f"run-{len(made)}"
        folder.mkdir()
        made.append(Run(folder, cluster, *flags))
        made[-1].agent.wait_ready()
        return made[-1]

    yield start
    for each in made:
        if each.agent.child.poll() is None:
            each.agent.end()
        each.machine.close()


def test_every_probe_goes_and_comes_back_through_every_fault(cluster, run):
    cluster.stop()  # the agent starts while nothing answers: it attaches
    it = run()
    it.probes(2)
    assert it.off() == {"signal": 0, "node": 0, "config_map": 0}
    assert it.by_source("agent_off_switch_up") == {"signal": 1, "node": 0, "config_map": 0}
    cluster.put(NODES, node(annotations=OFF))
    cluster.start()
    it.probes(0)
    assert it.off() == {"signal": 0, "node": 1, "config_map": 0}
    it.machine.workload("training", steps=3)
    assert it.launched() == 0
    assert it.agent.get("/healthz") == "ok\nprobes are switched off by node\n"
    assert it.agent.get("/readyz") == "ok\nprobes are switched off by node\n"
    # Nothing that the server does from now on puts a probe back while the node says off.
    for fault in ("expired", "malformed", "huge", "reset"):
        cluster.fail(NODES, "watch", fault)
        cluster.stop()
        cluster.start()
        until(lambda: not cluster.faults[NODES, "watch"], seconds=40)
        assert breakpoints(it.machine) == 0
    cluster.put(NODES, node(annotations={ANNOTATION: "maybe"}))
    until(lambda: it.by_source("agent_off_switch_malformed_total")["node"] == 1)
    assert breakpoints(it.machine) == 0
    cluster.stop()
    until(lambda: it.by_source("agent_off_switch_up")["node"] == 0)
    assert breakpoints(it.machine) == 0
    assert it.off()["node"] == 1
    # The annotation is taken off while the server is away; probes come back with it.
    cluster.put(NODES, node())
    cluster.start()
    it.probes(2)
    (line,) = it.machine.workload("training", steps=5)
    assert it.launched() == line["counts"]["cuLaunchKernel"]
    assert it.agent.get("/healthz") == "ok\n"
    log = it.agent.text
    assert log.count("probes are switched off by the annotation") == 1
    assert log.count("probes are switched on") == 1
    assert log.count("'maybe' is neither `on` nor `off`") == 1
    assert "Traceback" not in log
    assert "HTTP Request" not in log


def test_whatever_says_off_wins_and_the_rest_is_told(cluster, run):
    it = run()
    it.probes(2)
    say(cluster, probes="off")
    it.probes(0)
    it.agent.child.send_signal(signal.SIGUSR1)
    until(lambda: it.off() == {"signal": 1, "node": 0, "config_map": 1})
    say(cluster, probes="on", off_nodes="node-b")
    until(lambda: it.off() == {"signal": 1, "node": 0, "config_map": 0})
    assert breakpoints(it.machine) == 0
    cluster.put(NODES, node(annotations=OFF))
    until(lambda: it.off() == {"signal": 1, "node": 1, "config_map": 0})
    it.agent.child.send_signal(signal.SIGUSR2)
    until(lambda: it.off() == {"signal": 0, "node": 1, "config_map": 0})
    assert breakpoints(it.machine) == 0
    cluster.put(NODES, node())
    it.probes(2)


def test_an_agent_that_starts_on_a_node_that_is_off_attaches_nothing(cluster, run):
    cluster.put(NODES, node(annotations=OFF))
    it = run()
    assert breakpoints(it.machine) == 0
    it.agent.next_snapshot()
    assert "attached to" not in it.agent.text
    assert it.off()["node"] == 1
    cluster.put(NODES, node())
    it.probes(2)


def test_without_rights_it_runs_and_the_signal_still_works(cluster, run):
    cluster.forbidden = {NODES, CONFIG_MAPS}
    it = run()
    it.probes(2)
    until(lambda: "Give the service account `list` and `watch` on nodes" in it.agent.text)
    until(lambda: it.by_source("agent_off_switch_up") == {"signal": 1, "node": 0, "config_map": 0})
    it.agent.child.send_signal(signal.SIGUSR1)
    it.probes(0)
    it.agent.child.send_signal(signal.SIGUSR2)
    it.probes(2)
