"""The whole layer through its door: fake servers, and processes in procfs-shaped folders."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading

import pytest

from gpugauge.attribution import Attribution, Use, compare
from gpugauge.attribution import attribution as module
from gpugauge.model.workload import HOST, UNKNOWN, Scope
from tests.k8s.conftest import SHORT
from tests.k8s.fakes.api_server import NAMESPACES, PODS, SLICES, SLICES_BETA, FakeApiServer
from tests.k8s.fakes.kubelet import Given
from tests.k8s.fakes.objects import (
    NODE,
    container_id,
    namespace,
    pod,
    pod_uid,
    resource_slice,
    static_pod,
    status,
)
from tests.k8s.fakes.waiting import until

HASH = "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"
GPU0 = "GPU-0a1b2c3d-1111-2222-3333-444455556660"
GPU1 = "GPU-0a1b2c3d-1111-2222-3333-444455556661"


class World:
    def __init__(self, folder, server, kubelet):
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.server, self.kubelet = server, kubelet
        self.attribution = self.make(folder)

    def make(self, folder, **more):
        settings = {
            "node_name": NODE,
            "kubeconfig": str(self.server.kubeconfig(folder)),
            "kubelet_path": str(self.kubelet.kubelet_path),
            "cgroup_root": str(folder),
            "proc": str(self.proc),
            "kubelet_poll_seconds": 0.02,
            "watch_limits": SHORT,
        }
        return Attribution(**{**settings, **more})

    def process(self, pid, cgroup):
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(f"0::{cgroup}\n")


@pytest.fixture
def world(tmp_path, server, kubelet):
    made = World(tmp_path, server, kubelet)
    yield made
    made.attribution.stop()


def path(name, container="main"):
    return f"/kubepods/pod{pod_uid(f'ml/{name}')}/{container_id(f'ml/{name}/{container}')}"


def test_pods_entitlements_and_their_difference(world):
    attribution = world.attribution
    for name in ("a", "b", "greedy"):
        world.server.put(PODS, pod(name, labels={"ray.io/cluster": f"{name}-ray"}))
        world.process(len(name) + ord(name[0]), path(name))
    world.kubelet.given = [
        Given("ml", "a", "main", {"nvidia.com/gpu": [f"{GPU0}::0"]}),
        Given("ml", "b", "main", {"nvidia.com/gpu": [GPU1]}),
    ]
    world.kubelet.allocatable = {"nvidia.com/gpu": [f"{GPU0}::{n}" for n in range(5)] + [GPU1]}
    attribution.start()
    until(lambda: attribution.ready and attribution.entitlements_known)
    pids = {name: len(name) + ord(name[0]) for name in ("a", "b", "greedy")}
    owners = {name: attribution.owner(pid) for name, pid in pids.items()}
    assert {o.pod: (o.namespace, o.container, o.workload) for o in owners.values()} == {
        name: ("ml", "main", f"{name}-ray") for name in owners
    }
    entitled = attribution.entitlements()
    assert {(e.owner.pod, e.gpu_uuid, e.replicas) for e in entitled} == {
        ("a", GPU0, 5),
        ("b", GPU1, 0),
    }
    # What is entitled and what was found at work are the same owner.
    assert {e.owner for e in entitled} == {owners["a"], owners["b"]}
    found = compare(entitled, [Use(owners["a"], GPU0), Use(owners["greedy"], GPU0)])
    assert [use.owner.pod for use in found.not_entitled] == ["greedy"]
    assert [one.owner.pod for one in found.not_used] == ["b"]
    assert attribution.errors == {}
    assert attribution.unresolved == {}


def test_the_answer_is_the_same_object_until_something_changes(world):
    world.server.put(PODS, pod("a"))
    world.kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [GPU0]})]
    world.attribution.start()
    until(lambda: world.attribution.entitlements() and world.attribution.ready)
    version, before = world.attribution.version, world.attribution.entitlements()
    assert world.attribution.entitlements() is before
    world.kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [GPU1]})]
    until(lambda: world.attribution.version > version)
    assert [one.gpu_uuid for one in world.attribution.entitlements()] == [GPU1]


def test_the_api_server_is_down_at_start_and_owners_catch_up(world):
    world.server.put(PODS, pod("a"))
    etcd = [status("etcd", container_id("etcd"))]
    world.server.put(PODS, static_pod("etcd", HASH, containers=etcd))
    world.process(23, path("a"))
    world.process(29, f"/kubepods/pod{HASH}/{container_id('etcd')}")
    world.server.stop()
    attribution = world.attribution
    attribution.start()
    until(lambda: "pods" in attribution.errors)
    first = attribution.owner(23)
    assert (first.scope, first.container) == (Scope.CONTAINER, container_id("ml/a/main")[:12])
    assert not attribution.ready
    assert sum(attribution.unresolved.values()) == 1
    version = attribution.version
    world.server.start()
    until(lambda: attribution.ready)
    assert attribution.version > version
    assert attribution.owner(23).pod == "a"
    assert attribution.owner(29).pod == "etcd"
    until(lambda: attribution.errors == {})


def test_a_restart_an_ephemeral_container_and_the_end_of_the_pod(world):
    attribution = world.attribution
    world.server.put(PODS, pod("a"))
    world.process(23, path("a"))
    attribution.start()
    until(lambda: attribution.ready)
    assert attribution.owner(23).container == "main"
    ids = [container_id(f"ml/a/{name}") for name in ("main", "again", "debug")]
    world.process(29, f"/kubepods/pod{pod_uid('ml/a')}/{ids[1]}")
    world.process(31, f"/kubepods/pod{pod_uid('ml/a')}/{ids[2]}")
    world.server.put(PODS, pod("a", containers=[status("main", ids[1], previous=ids[0])],
                               ephemeral=[status("debugger", ids[2])]))  # fmt: skip
    until(lambda: attribution.owner(31).container == "debugger")
    assert attribution.owner(29).container == "main"
    assert attribution.owner(23).container == "main"  # the container before
    world.server.delete(PODS, pod("a"))
    world.server.put(PODS, pod("b"))
    world.process(37, path("b"))
    until(lambda: attribution.owner(37).pod == "b")
    assert attribution.owner(29).pod == "a"


def test_opting_out_by_annotation_of_the_pod_and_of_its_namespace(world):
    attribution = world.attribution
    world.server.put(PODS, pod("a", annotations={"gpugauge.io/trace": "off"}))
    world.server.put(PODS, pod("b"))
    world.process(23, path("a"))
    world.process(29, path("b"))
    attribution.start()
    until(lambda: attribution.ready)
    assert (attribution.owner(23).traced, attribution.owner(29).traced) == (False, True)
    world.server.put(NAMESPACES, namespace("ml", {"gpugauge.io/trace": "off"}))
    until(lambda: not attribution.owner(29).traced)


@pytest.mark.parametrize(("api", "old"), [(SLICES, False), (SLICES_BETA, True)])
def test_dra_claims_are_named_by_resource_slices(world, api, old):
    """Those of pods that never touch their GPU too: no process is asked for here."""
    world.server.paths.add(api)
    world.server.put(api, resource_slice("s", {"gpu-7": GPU1}, old=old))
    world.server.put(PODS, pod("a"))
    world.attribution.start()
    until(lambda: world.attribution.entitlements_known)
    world.attribution.entitlements()
    assert world.server.count(SLICES, "list") == 0  # nobody has a claim: not asked
    claim = ("ml", "claim", "gpu.nvidia.com", NODE, "gpu-7")
    world.kubelet.given = [Given("ml", "a", "main", claims=[claim])]

    def named():
        return [one.gpu_uuid for one in world.attribution.entitlements()] == [GPU1]

    until(named)
    assert world.attribution.errors == {}


def test_slices_that_are_refused_leave_the_device_unknown_and_are_said(world):
    world.server.forbidden = {SLICES}
    claim = ("ml", "claim", "gpu.nvidia.com", NODE, "gpu-7")
    world.kubelet.given = [Given("ml", "a", "main", claims=[claim])]
    world.attribution.start()

    def said():
        world.attribution.entitlements()
        return "on resourceslices" in world.attribution.errors.get("resourceslices", "")

    until(said)
    assert [one.gpu_uuid for one in world.attribution.entitlements()] == [UNKNOWN]


def test_a_container_that_no_list_names_makes_the_watch_start_anew(world, monkeypatch):
    monkeypatch.setattr(module, "WALK_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(module, "UNLISTED_SECONDS", -1.0)
    world.process(23, path("a"))
    world.server.fail(PODS, "watch", "silence")  # a half-open connection: nothing comes
    world.attribution.start()
    until(lambda: world.attribution.ready and world.server.count(PODS, "watch") == 1)
    world.server.put(PODS, pod("a"))
    until(lambda: world.attribution.owner(23).pod == "a")
    assert world.server.count(PODS, "list") >= 2


def test_restarts_of_everything_in_turn(world, tmp_path):
    world.server.put(PODS, pod("a"))
    world.process(23, path("a"))
    world.kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [GPU0]})]
    attribution = world.attribution
    attribution.start()
    until(lambda: attribution.ready and attribution.entitlements_known)
    for _ in range(2):
        world.server.stop()
        world.kubelet.stop(keep_socket=True)
        until(lambda: {"pods", "kubelet"} <= attribution.errors.keys())
        assert attribution.owner(23).pod == "a"
        assert [one.gpu_uuid for one in attribution.entitlements()] == [GPU0]
        world.server.start()
        world.kubelet.start()
        until(lambda: attribution.errors == {})
    attribution.stop()
    again = world.attribution = world.make(tmp_path)
    again.start()
    until(lambda: again.ready and again.entitlements_known)
    assert again.owner(23).pod == "a"


def test_kubernetes_off(world, tmp_path):
    world.process(23, path("a"))
    world.process(29, "/init.scope")
    off = world.make(tmp_path, enabled=False)
    off.start()
    assert off.owner(23).container == container_id("ml/a/main")[:12]
    assert off.owner(29) == HOST
    assert (off.ready, off.errors, off.entitlements(), off.kubernetes) == (True, {}, (), False)
    off.stop()
    assert world.server.requests == []


def test_it_is_on_where_there_is_a_way_to_kubernetes(world, tmp_path):
    nothing = {"kubeconfig": "", "service_account": str(tmp_path / "no"), "kubelet_path": "/no"}
    assert not world.make(tmp_path, **nothing).kubernetes
    assert world.make(tmp_path, **nothing, enabled=True).kubernetes
    kubelet_only = {**nothing, "kubelet_path": str(world.kubelet.kubelet_path)}
    assert world.make(tmp_path, **kubelet_only).kubernetes
    (tmp_path / "no").mkdir()
    (tmp_path / "no/token").touch()
    assert world.make(tmp_path, **nothing).kubernetes


def test_a_wrong_node_name_is_suspected(world, tmp_path, monkeypatch):
    monkeypatch.setenv("NODE_NAME", "node-x")
    world.server.put(PODS, pod("a"))
    world.process(23, path("a"))
    wrong = world.attribution = world.make(tmp_path, node_name="")
    wrong.start()
    until(lambda: wrong.ready)
    assert wrong.errors == {}
    wrong.owner(23)
    assert "No pod is bound to node node-x" in wrong.errors["node"]


def test_no_configuration_is_said_and_tried_again(world, tmp_path):
    lost = world.make(tmp_path, kubeconfig=str(tmp_path / "absent"))
    lost.start()
    until(lambda: "No way to the API server" in lost.errors.get("pods", ""))
    lost.stop()


def test_without_the_extra_container_ids_are_still_resolved(world, tmp_path):
    world.process(23, path("a"))
    # A Python that cannot find the three packages, as where the extra is not installed.
    program = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("lightkube", "h2", "msgspec", "google"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import importlib.util
real = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return real(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
from gpugauge.attribution import Attribution
one = Attribution(enabled=True, proc={str(world.proc)!r}, cgroup_root={str(tmp_path)!r})
one.start()
print(one.owner(23).container, one.errors["kubernetes"], one.ready)
one.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )  # fmt: skip
    assert done.stdout.startswith(container_id("ml/a/main")[:12])
    assert "lightkube and h2 missing. Install gpugauge[kubernetes]. True" in done.stdout


def test_a_service_account_over_tls(tmp_path, monkeypatch):
    made = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", tmp_path / "key.pem", "-out", tmp_path / "ca.crt",
    ]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "key.pem").read_bytes() + (tmp_path / "ca.crt").read_bytes())
    (tmp_path / "token").write_text("first-token")
    (tmp_path / "namespace").write_text("gpugauge")
    with FakeApiServer(tls=both) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        server.put(PODS, pod("a"))
        limits = dataclasses.replace(SHORT, watch_seconds=1.0)
        one = Attribution(
            node_name=NODE, service_account=str(tmp_path), kubelet_path=str(tmp_path),
            watch_limits=limits,
        )  # fmt: skip
        one.start()
        until(lambda: one.ready)
        (tmp_path / "token").write_text("rotated")
        server.tokens = {"rotated"}
        seen = server.count(PODS, "watch")
        until(lambda: server.count(PODS, "watch") >= seen + 2)
        until(lambda: "pods" not in one.errors)
        version = one.version
        server.put(PODS, pod("b"))
        until(lambda: one.version > version)
        one.stop()


def test_no_thread_outlives_stop(world):
    before = set(threading.enumerate())
    world.attribution.start()
    until(lambda: world.attribution.ready)
    assert len(set(threading.enumerate()) - before) >= 3
    world.attribution.stop()
    names = ("watch-", "kubelet")
    left = [t.name for t in set(threading.enumerate()) - before if t.name.startswith(names)]
    assert left == []
