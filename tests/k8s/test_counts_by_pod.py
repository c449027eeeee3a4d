"""Traced programs in real containers: each pod's calls are its own, and together they are all."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from gpugauge.attribution import Attribution
from gpugauge.attribution.resolver import NOT_LISTED
from gpugauge.model.abi import Cause, Slot
from gpugauge.model.workload import UNKNOWN, Scope
from tests.k8s.conftest import SHORT
from tests.k8s.fakes.api_server import PODS
from tests.k8s.fakes.objects import NODE, container_id, pod, pod_uid, status
from tests.k8s.fakes.waiting import until
from tests.k8s.test_containers import Node
from tests.linux.tracing import Traced, traced

REPOSITORY = Path(__file__).resolve().parents[2]
# A virtual environment's interpreter is a chain of links that ends outside it.
PYTHON = sorted({Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]} - {Path("/usr")})


STUCK = """
from sim.workloads.driver import Driver
driver = Driver()
function = driver.function("busy_60000000us")
for _ in range(17):
    driver.launch(function)
driver.synchronize()
"""


class Cluster:
    """Pods that run a simulated training, each with a copy of the driver's library of its own."""

    def __init__(self, folder: Path, node: Node, it: Traced, attribution: Attribution) -> None:
        self.folder, self.node, self.it, self.attribution = folder, node, it, attribution

    def train(self, name: str, run: str, *, steps: int, launches: int):
        flags = [f"--steps={steps}", f"--launches={launches}", "--launch-us=5"]
        return self.run(name, run, ["-m", "sim.workloads.training", *flags])

    def run(self, name: str, run: str, arguments: list[str]):
        library = self.folder / f"{name}-driver" / self.it.machine.library.name
        if not library.exists():
            shutil.copytree(self.it.machine.library.parent, library.parent)
            self.it.attach(library)
        environment = self.it.machine.environment | {
            "GPUGAUGE_SIM_LIBRARY": str(library),
            "LD_LIBRARY_PATH": str(library.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return self.node.run(
            pod_uid(f"ml/{name}"),
            run,
            [sys.executable, *arguments],
            environment=environment,
            mounts=[REPOSITORY, library.parent, Path(sys.prefix), *PYTHON],
            writable=[self.it.machine.state.parent],
            own_pids=False,
        )

    def tick(self):
        def owner(pid: int, cgroup_id: int):
            return self.attribution.owner(pid, 0, cgroup_id)

        return self.it.tick(owner_of=owner)

    def until_ended(self, *containers):
        while any(one.status != "stopped" for one in containers):
            snapshot = self.tick()
            time.sleep(0.02)
        assert all("steps" in one.output for one in containers), [one.output for one in containers]
        for _ in range(2):
            snapshot = self.tick()
        return snapshot


@pytest.fixture
def cluster(tmp_path, server, kubelet):
    node = Node(tmp_path / "containers")
    attribution = Attribution(
        node_name=NODE,
        kubeconfig=str(server.kubeconfig(tmp_path)),
        kubelet_path=str(kubelet.kubelet_path),
        watch_limits=SHORT,
    )
    machine = tmp_path / "machine"
    machine.mkdir()
    with traced(machine, attach=False) as it:
        yield Cluster(tmp_path, node, it, attribution)
        attribution.stop()
        node.close()


def launches(snapshot):
    return {
        series.owner.pod: series.operations[Slot.LAUNCH].calls
        for series in snapshot.series
        if series.operations.get(Slot.LAUNCH) and series.operations[Slot.LAUNCH].calls
    }


def bound(name: str, *runs: str):
    """The pod as the API server shows it after these runs of its container."""
    ids = [container_id(f"{pod_uid(f'ml/{name}')}/{run}") for run in runs]
    previous = ids[-2] if len(ids) > 1 else ""
    owner = ("StatefulSet", f"{name}-set")
    return pod(name, containers=[status("main", ids[-1], previous=previous)], owner=owner)


def test_two_pods_on_one_device_add_up_through_a_restart(cluster, server):
    server.put(PODS, bound("a", "first"))
    server.put(PODS, bound("b", "first"))
    cluster.attribution.start()
    until(lambda: cluster.attribution.ready)
    a = cluster.train("a", "first", steps=23, launches=13)
    b = cluster.train("b", "first", steps=29, launches=11)
    snapshot = cluster.until_ended(a, b)
    assert launches(snapshot) == {"a": 23 * 13, "b": 29 * 11}
    server.put(PODS, bound("b", "first", "second"))
    again = cluster.train("b", "second", steps=31, launches=7)
    snapshot = cluster.until_ended(again)
    counted = launches(snapshot)
    assert counted == {"a": 23 * 13, "b": 29 * 11 + 31 * 7}
    assert sum(counted.values()) == cluster.it.oracle.calls()["cuLaunchKernel"]
    owners = {series.owner.pod: series.owner for series in snapshot.series if series.owner.pod}
    assert {name: one.workload for name, one in owners.items()} == {"a": "a-set", "b": "b-set"}
    assert {one.container for one in owners.values()} == {"main"}
    assert cluster.attribution.unresolved == {}


def test_a_pod_that_the_api_server_names_late_has_its_first_counts_too(cluster, server):
    cluster.attribution.start()
    until(lambda: cluster.attribution.ready)
    a = cluster.train("a", "first", steps=400, launches=3)
    until(lambda: cluster.tick().processes)
    snapshot = cluster.tick()
    (process,) = snapshot.processes
    assert (process.owner.scope, process.owner.container) == (Scope.CONTAINER, a.id[:12])
    assert snapshot.series == snapshot.times == ()
    server.put(PODS, bound("a", "first"))
    snapshot = cluster.until_ended(a)
    assert launches(snapshot) == {"a": 400 * 3}
    assert cluster.attribution.unresolved == {}


def test_a_process_that_ended_before_its_pod_was_named_is_the_pods(cluster, server):
    cluster.attribution.start()
    until(lambda: cluster.attribution.ready)
    a = cluster.train("a", "first", steps=23, launches=13)
    shown = []
    while not shown or shown[-1]:
        shown.append([one for one in cluster.tick().processes if not one.alive])
        if a.status != "stopped":
            shown.clear()
    assert sum(map(len, shown)) <= 1  # its end is told once, however long it is kept
    snapshot = cluster.tick()
    assert snapshot.series == ()
    assert cluster.it.state.ended() == ()
    server.put(PODS, bound("a", "first"))
    until(lambda: cluster.tick().series)
    assert launches(cluster.tick()) == {"a": 23 * 13}
    assert cluster.it.reap_ended() == 1


@pytest.mark.parametrize("limit", ["HOLD_PENDING_NS", "HELD_ENDED_LIMIT"])
def test_counts_are_not_held_back_for_ever(cluster, monkeypatch, limit):
    monkeypatch.setattr(f"gpugauge.state.processes.{limit}", 0)
    cluster.attribution.start()
    until(lambda: cluster.attribution.ready)
    a = cluster.train("a", "first", steps=23, launches=13)
    snapshot = cluster.until_ended(a)
    assert launches(snapshot) == {UNKNOWN: 23 * 13}
    assert cluster.attribution.unresolved == {NOT_LISTED: 1}


def test_a_pod_deleted_inside_a_synchronization_keeps_its_counts(cluster, server):
    server.put(PODS, bound("a", "first"))
    cluster.attribution.start()
    until(lambda: cluster.attribution.ready)
    stuck = cluster.run("a", "first", ["-c", STUCK])

    def waits():
        return [
            series
            for series in cluster.tick().series
            if series.owner.pod == "a" and series.open_calls.get(Cause.SYNCHRONIZE)
        ]

    (held,) = until(waits)
    assert held.open_calls[Cause.SYNCHRONIZE].calls == 1
    waited_ns = held.open_calls[Cause.SYNCHRONIZE].blocked_ns
    server.delete(PODS, bound("a", "first"))
    stuck.delete()
    cluster.node.containers.remove(stuck)
    until(lambda: not waits())
    snapshot = cluster.tick()
    assert launches(snapshot) == {"a": 17}
    # What it waited for nothing is not lost with it.
    assert sum(one.blocked_ns[Cause.SYNCHRONIZE] for one in snapshot.series) >= waited_ns > 0
    (owner,) = {one.owner for one in snapshot.series}
    assert (owner.pod, owner.container, owner.workload) == ("a", "main", "a-set")
