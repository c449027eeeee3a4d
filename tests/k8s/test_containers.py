"""Real containers by runc, in cgroups named as the kubelet names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugauge.attribution import Attribution
from gpugauge.attribution.cgroup_tree import unified_root
from gpugauge.attribution.process_cgroup import start_time_ticks
from gpugauge.model.workload import HOST, Scope
from tests.k8s.conftest import SHORT
from tests.k8s.fakes.api_server import PODS
from tests.k8s.fakes.containers import remove_empty_cgroups, run_container
from tests.k8s.fakes.objects import NODE, container_id, pod, pod_uid, static_pod, status
from tests.k8s.fakes.waiting import until

HASH = "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"
BUSY = ["sh", "-c", "while :; do :; done"]
SLEEP = ["sleep", "600"]


class Node:
    """Starts containers of pods, and removes them and their cgroups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = f"/gpugauge-test-{os.getpid()}"
        self.containers = []

    def run(self, uid: str, name: str, command, *, qos="burstable", **more):
        identity = container_id(f"{uid}/{name}")
        level = f"/{qos}" if qos else ""
        cgroup = f"{self.root}/kubepods{level}/pod{uid}/{identity}"
        one = run_container(self.folder / identity[:8], identity, cgroup, command, **more)
        self.containers.append(one)
        return one

    def cgroup_id(self, pid: int) -> int:
        """What `bpf_get_current_cgroup_id` answers in that process."""
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
        return Path(unified_root("/sys/fs/cgroup") + path).stat().st_ino

    def close(self) -> None:
        for one in self.containers:
            one.delete()
        until(lambda: remove_empty_cgroups(self.root) or not self.left())

    def left(self):
        return [one for one in Path("/sys/fs/cgroup").glob(f"**{self.root}") if one.is_dir()]


def _has_ended(pid: int) -> bool:
    """Gone, or a zombie that its parent has not collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


@pytest.fixture
def node(tmp_path):
    one = Node(tmp_path / "containers")
    yield one
    one.close()


@pytest.fixture
def attribution(server, kubelet, tmp_path):
    one = Attribution(
        node_name=NODE,
        kubeconfig=str(server.kubeconfig(tmp_path)),
        kubelet_path=str(kubelet.kubelet_path),
        watch_limits=SHORT,
    )
    yield one
    one.stop()


def test_processes_of_two_pods_a_static_pod_and_the_host(node, server, attribution):
    uids = {name: pod_uid(f"ml/{name}") for name in ("a", "b")}
    pids = {
        ("a", "main"): node.run(uids["a"], "main", SLEEP),
        ("a", "side"): node.run(uids["a"], "side", SLEEP),
        ("b", "main"): node.run(uids["b"], "main", SLEEP, qos=""),
        ("etcd", "etcd"): node.run(HASH, "etcd", SLEEP),
    }
    for name, uid in uids.items():
        held = [status(c, container_id(f"{uid}/{c}")) for p, c in pids if p == name]
        server.put(PODS, pod(name, containers=held, owner=("StatefulSet", f"{name}-set")))
    etcd = [status("etcd", container_id(f"{HASH}/etcd"))]
    server.put(PODS, static_pod("etcd", HASH, containers=etcd))
    attribution.start()
    until(lambda: attribution.ready)
    for (name, container), one in pids.items():
        owner = attribution.owner(one.pid, start_time_ticks("/proc", one.pid) or 0)
        assert (owner.pod, owner.container, owner.container_id) == (name, container, one.id)
        assert attribution.owner_by_cgroup(node.cgroup_id(one.pid)) == owner
    assert attribution.owner(pids["a", "main"].pid).workload == "a-set"
    assert attribution.owner(os.getpid()) == HOST
    assert attribution.unresolved == {}


def test_a_process_that_ended_is_resolved_by_the_cgroup_id_that_was_noted(
    node, server, attribution
):
    uid = pod_uid("ml/a")
    one = node.run(uid, "main", SLEEP)
    pid, number = one.pid, node.cgroup_id(one.pid)
    attribution.start()  # walks the tree while the container lives
    one.delete()
    node.containers.remove(one)
    until(lambda: _has_ended(pid))
    server.put(PODS, pod("a", containers=[status("main", one.id, state="terminated")]))
    until(lambda: attribution.owner(pid, 1, number).pod == "a")
    assert attribution.owner(pid, 1, number).container == "main"
    assert attribution.owner(pid, 2, number + 999_999).scope is Scope.UNKNOWN


def test_a_restart_of_the_container(node, server, attribution):
    uid = pod_uid("ml/a")
    first = node.run(uid, "main", SLEEP)
    server.put(PODS, pod("a", containers=[status("main", first.id)]))
    attribution.start()
    until(lambda: attribution.ready)
    assert attribution.owner(first.pid).container_id == first.id
    second = node.run(uid, "main-again", SLEEP)
    restarted = [status("main", second.id, previous=first.id)]
    before = attribution.version
    server.put(PODS, pod("a", containers=restarted))
    until(lambda: attribution.version > before)
    owner = attribution.owner(second.pid)
    assert (owner.pod, owner.container, owner.container_id) == ("a", "main", second.id)


def test_cpu_quota_throttling_and_cpu_time_are_read_from_its_cgroup(node, server, attribution):
    uid = pod_uid("ml/a")
    busy = node.run(uid, "busy", BUSY, cpu_quota_cores=0.07)
    calm = node.run(uid, "calm", SLEEP)
    held = [status("busy", busy.id), status("calm", calm.id)]
    server.put(PODS, pod("a", containers=held))
    attribution.start()
    until(lambda: attribution.ready)
    owners = [attribution.owner(one.pid) for one in (busy, calm)]

    def contexts():
        return attribution.host_contexts(owners)

    # A process that never waits and has 7 ms in 100 is stopped in every period.
    until(lambda: (contexts()[0].cpu_throttled_ns or 0) > 0)
    first = contexts()
    until(lambda: contexts()[0].cpu_throttled_ns > first[0].cpu_throttled_ns)
    until(lambda: contexts()[0].cpu_used_ns > first[0].cpu_used_ns)
    second = contexts()
    assert [one.owner for one in second] == owners
    assert second[0].cpu_quota_cores == pytest.approx(0.07)
    assert first[0].cpu_used_ns > 0
    assert second[1].cpu_quota_cores is None
    assert second[1].cpu_throttled_ns == 0
    assert set(second[0].pressure_ns) == {"cpu", "io", "memory"}
    # Pressure of a container that wants CPU and may not have it rises.
    assert second[0].pressure_ns["cpu"] > 0
