"""Whose a process is: what /proc, the cgroup tree and the pods say together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.attribution import resolver as module
from gpugauge.attribution.cgroup import parse_path
from gpugauge.attribution.cgroup_tree import CgroupTree
from gpugauge.attribution.pod_store import PodStore
from gpugauge.attribution.pod_view import Container, Pod, PodView
from gpugauge.attribution.process_cgroup import process_cgroup, start_time_ticks
from gpugauge.attribution.resolver import Resolver
from gpugauge.model.workload import HOST, UNKNOWN, Scope

A, B, C = "a" * 64, "b" * 64, "c" * 64
UA = "aaaaaaaa-0000-4000-8000-000000000001"
UB = "bbbbbbbb-0000-4000-8000-000000000002"
HASH = "8e33146c8d0ab8d3a0e1c3f7c6a4d9b2"


def pod(name, uid, *containers, **more):
    return Pod(
        uid=uid,
        namespace="ml",
        name=name,
        workload=f"{name}-w",
        workload_kind="Deployment",
        containers=tuple(Container(f"{name}{n}", one) for n, one in enumerate(containers)),
        **more,
    )


class World:
    """A procfs and a cgroup tree in a folder, and a clock."""

    def __init__(self, folder):
        self.now = 100.0
        self.proc = folder / "proc"
        self.cgroups = folder / "cgroups"
        self.cgroups.mkdir()
        self.store = PodStore(clock=self.clock)
        self.tree = CgroupTree(str(self.cgroups), clock=self.clock)
        self.resolver = self.make()

    def clock(self):
        return self.now

    def make(self, **more):
        return Resolver(self.store.view, self.tree, proc=str(self.proc), clock=self.clock, **more)

    def process(self, pid, cgroup, start=7000, comm="a) (b", state="S"):
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        fields = [state] + ["1"] * 18 + [str(start)] + ["0"] * 30
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")

    def end(self, pid):
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()

    def cgroup(self, path):
        folder = self.cgroups / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder.stat().st_ino


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setattr(CgroupTree, "_has_children", staticmethod(lambda entry: True))
    return World(tmp_path)


def test_a_container_of_a_pod(world):
    world.store.replace([pod("web", UA, A, B)])
    world.process(23, f"/kubepods/burstable/pod{UA}/{B}")
    owner = world.resolver.owner(23, 7000)
    assert (owner.scope, owner.namespace, owner.pod) == (Scope.POD, "ml", "web")
    assert (owner.container, owner.workload, owner.workload_kind) == ("web1", "web-w", "Deployment")
    assert (owner.pod_uid, owner.container_id, owner.reason) == (UA, B, "")
    assert owner.traced


def test_host_and_plain_containers(world):
    world.process(23, "/system.slice/sshd.service")
    world.process(29, f"/docker/{A}")
    assert world.resolver.owner(23, 7000) == HOST
    owner = world.resolver.owner(29, 7000)
    assert (owner.scope, owner.container, owner.container_id) == (Scope.CONTAINER, A[:12], A)
    assert (owner.namespace, owner.pod, owner.reason) == ("", "", "")
    assert world.resolver.unresolved() == {}


def test_what_is_not_known_yet_is_looked_up_again_when_the_view_moves(world):
    world.process(23, f"/kubepods/pod{UA}/{A}")
    first = world.resolver.owner(23, 7000)
    assert (first.scope, first.pod, first.reason) == (Scope.CONTAINER, UNKNOWN, module.WAITING)
    world.store.replace([])
    assert world.resolver.owner(23, 7000).reason == module.NOT_LISTED
    assert world.resolver.unresolved() == {module.NOT_LISTED: 1}
    world.now += 29
    assert world.resolver.oldest_unlisted_seconds() == 29
    world.store.put(pod("web", UA))
    partly = world.resolver.owner(23, 7000)
    assert (partly.pod, partly.container, partly.reason) == ("web", UNKNOWN, module.NO_CONTAINER)
    world.store.put(pod("web", UA, A))
    final = world.resolver.owner(23, 7000)
    assert (final.pod, final.container, final.reason) == ("web", "web0", "")
    assert world.resolver.unresolved() == {}
    assert world.resolver.oldest_unlisted_seconds() == 0


def test_without_kubernetes_it_says_so(world):
    world.process(23, f"/kubepods/pod{UA}/{A}")
    owner = world.make(kubernetes=False).owner(23, 7000)
    assert (owner.container, owner.reason) == (A[:12], module.NO_KUBERNETES)


def test_a_path_below_kubepods_that_names_nothing_is_unknown_not_host(world):
    world.process(23, "/kubepods/burstable/strange")
    owner = world.resolver.owner(23, 7000)
    assert (owner.scope, owner.reason) == (Scope.UNKNOWN, module.UNPARSED)
    assert world.resolver.unresolved() == {module.UNPARSED: 1}


def test_a_process_that_is_gone_is_found_by_its_cgroup(world):
    world.store.replace([pod("web", UA, A)])
    number = world.cgroup(f"/kubepods/pod{UA}/{A}")
    assert world.resolver.owner(23, 7000, number).pod == "web"
    assert world.resolver.owner_by_cgroup(number).container == "web0"
    assert world.resolver.owner(29, 7000, 999_999_999).reason == module.GONE
    assert world.resolver.owner_by_cgroup(999_999_999).scope is Scope.UNKNOWN


def test_on_hybrid_the_tree_does_not_turn_a_pod_into_the_runtimes_service(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, f"/kubepods/pod{UA}/{A}")
    assert world.resolver.owner(23, 7000, world.cgroup("/system.slice/containerd")).pod == "web"


def test_a_relative_path_is_completed_by_the_tree(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, "/../..")
    assert world.resolver.owner(23, 7000, world.cgroup(f"/kubepods/pod{UA}/{A}")).pod == "web"


def test_a_sibling_without_the_pods_uid_is_found_by_its_id(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, f"/../cri-containerd-{A}.scope")
    assert world.resolver.owner(23, 7000).pod == "web"
    # Nor can it name a neighbour below its own cgroup.
    world.store.put(pod("victim", UB, B))
    world.process(29, f"/../cri-containerd-{A}.scope/{B}")
    assert world.resolver.owner(29, 7000).pod == "web"


def test_a_pid_used_again_is_another_process(world):
    world.store.replace([pod("web", UA, A), pod("db", UB, B)])
    world.process(23, f"/kubepods/pod{UA}/{A}", start=7000)
    assert world.resolver.owner(23, 7000).pod == "web"
    world.process(23, f"/kubepods/pod{UB}/{B}", start=7001)
    assert world.resolver.owner(23, 7001).pod == "db"
    assert world.resolver.owner(23, 7000).pod == "web"  # as it was when it lived
    assert world.resolver.owner(23, 6999).reason == module.GONE


def test_a_pid_used_again_is_told_by_its_cgroup_where_its_start_is_not_known(world):
    world.store.replace([pod("web", UA, A), pod("db", UB, B)])
    noted = world.cgroup(f"/kubepods/pod{UA}/{A}")
    world.process(23, f"/kubepods/pod{UB}/{B}")
    assert world.resolver.owner(23, 0, noted).pod == "web"
    assert world.resolver.owner(23).pod == "db"
    world.process(23, f"/kubepods/pod{UA}/{A}")
    assert world.resolver.owner(23).pod == "db"
    world.now += module.RECHECK_SECONDS
    assert world.resolver.owner(23).pod == "web"
    world.end(23)
    world.now += module.RECHECK_SECONDS
    assert world.resolver.owner(23).pod == "web"


def test_a_process_keeps_its_owner_after_it_and_its_pod_ended(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, f"/kubepods/pod{UA}/{A}")
    world.resolver.owner(23, 7000)
    world.end(23)
    world.store.replace([])
    assert world.resolver.owner(23, 7000).pod == "web"


def test_a_process_that_its_runtime_moves_into_the_container_is_looked_at_again(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, "/system.slice/containerd.service")
    assert world.resolver.owner(23, 7000) == HOST
    world.process(23, f"/kubepods/pod{UA}/{A}")
    world.now += module.RECHECK_SECONDS
    assert world.resolver.owner(23, 7000).pod == "web"


def test_static_pods_restarts_and_single_containers(world):
    static = pod("etcd", UA, A, config_hash=HASH)
    world.store.replace([static])
    world.process(23, f"/kubepods/burstable/pod{HASH}/{A}")
    assert world.resolver.owner(23, 7000).pod_uid == UA
    # Restarted: its new id is not in the status yet, but it has only one container.
    world.process(29, f"/kubepods/burstable/pod{HASH}/{B}")
    restarted = world.resolver.owner(29, 7000)
    assert (restarted.pod, restarted.container, restarted.container_id) == ("etcd", "etcd0", B)
    world.store.put(pod("etcd", UA, B, config_hash=HASH))
    assert world.resolver.owner(23, 7000).container == "etcd0"  # the id before
    assert world.resolver.owner(29, 7000).container == "etcd0"


def test_docker_in_a_pod_and_kind(world):
    world.store.replace([pod("dind", UA, A)])
    world.process(23, f"/kubepods/pod{UA}/{A}/docker/{C}")
    assert world.resolver.owner(23, 7000).container == "dind0"
    world.process(29, f"/docker/{C}/kubelet/kubepods/pod{UA}/{A}")
    assert world.resolver.owner(29, 7000).container == "dind0"


def test_a_container_cannot_pass_for_its_neighbour(world):
    world.store.replace([pod("mine", UA, A), pod("victim", UB, B)])
    for forged in (
        f"/pod{UB}/{B}",
        f"/{B}",
        f"/kubepods/burstable/pod{UB}/cri-containerd-{B}.scope",
    ):
        world.process(23, f"/kubepods/pod{UA}/{A}{forged}")
        owner = world.make().owner(23, 7000)
        assert (owner.pod, owner.container) == ("mine", "mine0")
    # Also before its own container's id is known: its pod is known since it was bound.
    store = PodStore()
    store.replace([pod("mine", UA), pod("victim", UB, B)])
    owner = Resolver(store.view, world.tree, proc=str(world.proc)).owner(23, 7000)
    assert (owner.pod, owner.container) == ("mine", UNKNOWN)


def test_opting_out_by_pod_and_by_namespace(world):
    world.store.replace([pod("web", UA, A, traced=False), pod("db", UB, B)])
    world.process(23, f"/kubepods/pod{UA}/{A}")
    world.process(29, f"/kubepods/pod{UB}/{B}")
    assert not world.resolver.owner(23, 7000).traced
    assert world.resolver.owner(29, 7000).traced
    world.store.opt_out(frozenset({"ml"}))
    assert not world.resolver.owner(29, 7000).traced


def test_answers_that_nobody_asks_for_are_dropped(world, monkeypatch):
    world.process(23, "/kubepods/strange")
    world.resolver.owner(23, 7000)
    world.now += module.KEEP_SECONDS + 1
    world.process(29, "/init.scope")
    world.resolver.owner(29, 7000)
    assert world.resolver.unresolved() == {}
    monkeypatch.setattr(module, "CACHE_LIMIT", 31)
    for start in range(97):
        world.resolver.owner(29, start)
    assert len(world.resolver._answers) <= 31


def test_a_zombie_in_the_root_cgroup_is_not_taken_for_the_host(world):
    world.store.replace([pod("web", UA, A)])
    world.process(23, "/", state="Z")
    assert world.resolver.owner(23, 7000).reason == module.GONE
    world.now += 1
    assert world.resolver.owner(23, 7000, 0).reason == module.GONE
    assert world.resolver.owner(23, 0, world.cgroup(f"/kubepods/pod{UA}/{A}")).pod == "web"
    # Linux adds this to the path of a cgroup that was removed.
    world.process(29, f"/kubepods/pod{UA}/{A} (deleted)", state="Z")
    assert world.resolver.owner(29, 7000).pod == "web"


def test_stat_of_any_command_name(world):
    world.process(23, "/a", start=12345, comm=") 1 2 3 (x")
    assert start_time_ticks(str(world.proc), 23) == 12345
    assert process_cgroup(23, 12345, proc=str(world.proc)).identity.path == "/a"
    assert process_cgroup(23, 12346, proc=str(world.proc)) is None
    assert process_cgroup(29, None, proc=str(world.proc)) is None


IDS = st.sampled_from([A, B, C, f"pod{UA}", f"pod{UB}", f"pod{HASH}", "kubepods", "x"])


@given(st.lists(IDS, max_size=6), st.lists(IDS, max_size=6))
def test_what_a_container_adds_below_its_cgroup_never_changes_its_pod(outside, below):
    store = PodStore()
    store.replace([pod("mine", UA, A), pod("victim", UB, B)])
    view = store.view()
    resolver = Resolver(PodView, CgroupTree(""))
    own = "/" + "/".join([*outside, "kubepods", f"pod{UA}", A])
    before = resolver.owner_of(parse_path(own), view)
    after = resolver.owner_of(parse_path(f"{own}/{'/'.join(below)}"), view)
    assert after.pod_uid == before.pod_uid
