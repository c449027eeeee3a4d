"""Who is entitled to which GPU, and where use differs from it."""

from __future__ import annotations

import pytest

from gpugauge.attribution.allocation import Allocation, Allocations
from gpugauge.attribution.entitled import Use, compare
from gpugauge.attribution.entitlement import NOT_LISTED, DeviceNames, entitlements
from gpugauge.attribution.pod_store import PodStore
from gpugauge.attribution.pod_view import Container, Pod
from gpugauge.model.device import Device
from gpugauge.model.snapshot import Entitlement
from gpugauge.model.workload import HOST, UNKNOWN, Owner, Scope

U = "0a1b2c3d-1111-2222-3333-44445555666"
GPU0, GPU1, MIG = f"GPU-{U}0", f"GPU-{U}1", f"MIG-{U}2"


def device(uuid, index=0, **more):
    return Device(
        uuid=uuid, index=index, model="", pci_bus_id="", memory_total_bytes=None,
        memory_used_bytes=None, memory_reserved_bytes=None, utilization_ratio=None,
        compute_mode="", **more,
    )  # fmt: skip


def view(*pods, ended=()):
    store = PodStore()
    store.replace([*pods, *ended])
    store.replace(pods)
    return store.view()


def pod(name="web", **more):
    defaults = {
        "uid": f"uid-{name}",
        "namespace": "ml",
        "name": name,
        "workload": "w",
        "workload_kind": "Deployment",
        "containers": (Container("main", "1" * 64),),
    }
    return Pod(**{**defaults, **more})


def given(device_id, resource="nvidia.com/gpu", name="web", claim=""):
    return Allocation("ml", name, "main", resource, device_id, claim)


NAMES = DeviceNames(
    devices=(
        device(GPU0),
        device(GPU1, 1),
        device(MIG, 1, mig_parent_uuid=GPU1, gpu_instance=7, compute_instance=0),
        device(f"{MIG[:-1]}3", 1, mig_parent_uuid=GPU1, gpu_instance=9, compute_instance=0),
    ),
    minors={3: GPU0, 5: GPU1},
    dra_uuids={("gpu.nvidia.com", "node-a/gpu-0"): MIG},
)


@pytest.mark.parametrize(
    ("allocation", "uuids", "replicas"),
    [
        (given(GPU0), [GPU0], 0),
        (given(MIG, "nvidia.com/mig-1g.10gb"), [MIG], 0),
        (given(f"{GPU0}::3"), [GPU0], 4),
        (given(f"MIG-{GPU1}/7/0"), [MIG], 0),
        (given(f"MIG-{GPU1}/8/0"), [UNKNOWN], 0),
        (given("nvidia3"), [GPU0], 0),
        (given("nvidia4"), [UNKNOWN], 0),
        (given("nvidia5/gi9"), [f"{MIG[:-1]}3"], 0),
        (given("nvidia3/vgpu1"), [GPU0], 1),
        (given("all"), [GPU0, GPU1], 0),
        (given("node-a/gpu-0", "gpu.nvidia.com", claim="ml/c"), [MIG], 0),
        (given("node-a/gpu-3", "gpu.nvidia.com", claim="ml/c"), [GPU0], 0),
        (given("node-a/gpu-3-mig-1g-2-3", "gpu.nvidia.com", claim="ml/c"), [UNKNOWN], 0),
        (given("iommu-17", "nvidia.com/pgpu"), [UNKNOWN], 0),
    ],
)
def test_device(allocation, uuids, replicas):
    shares = {GPU0: 4}
    found = entitlements(Allocations(1, True, (allocation,), shares), view(pod()), NAMES)
    assert [one.gpu_uuid for one in found] == uuids
    assert {one.replicas for one in found} == {replicas}
    assert {one.device_id for one in found} == {allocation.device_id}
    assert found[0].owner == Owner(
        Scope.POD, "ml", "web", "main", "w", "Deployment", "uid-web", "1" * 64
    )


def test_replicas_are_counted_from_the_list_where_the_kubelet_does_not_say():
    many = tuple(given(f"{GPU0}::{n}", name=f"p{n}") for n in range(5))
    found = entitlements(Allocations(1, True, many), view(), NAMES)
    assert [one.replicas for one in found] == [5] * 5


def test_pods_that_ended_hold_nothing():
    everything = Allocations(1, True, (given(GPU0), given(GPU1, name="done")))
    terminal = view(pod(), pod("done", terminal=True))
    gone = view(pod(), ended=(pod("done"),))
    for seen in (terminal, gone):
        found = entitlements(everything, seen, NAMES)
        assert [one.owner.pod for one in found] == ["web"]


def test_a_pod_that_the_api_server_has_not_named_yet_is_kept():
    found = entitlements(Allocations(1, True, (given(GPU0),)), view(), NAMES)
    assert (found[0].owner.pod, found[0].owner.workload) == ("web", UNKNOWN)
    assert found[0].owner.reason == NOT_LISTED


def test_hamis_annotation_names_the_real_device():
    made = pod(hami_devices=f"{GPU1},NVIDIA,3000,30:;")
    found = entitlements(Allocations(1, True, (given("hami-17"),)), view(made), NAMES)
    assert [one.gpu_uuid for one in found] == [GPU1]


def owner(name, container="main"):
    return Owner(Scope.POD, "ml", name, container)


def held(name, gpu):
    return Entitlement(owner=owner(name), gpu_uuid=gpu, resource="nvidia.com/gpu", device_id=gpu)


def test_using_without_asking_and_holding_without_using():
    found = compare(
        [held("a", GPU0), held("b", GPU1), held("c", GPU0)],
        [Use(owner("a"), GPU0), Use(owner("a"), GPU1), Use(owner("x"), GPU0), Use(HOST, GPU0),
         Use(owner("x"), GPU0)],
    )  # fmt: skip
    assert found.not_entitled == (Use(owner("a"), GPU1), Use(owner("x"), GPU0))
    assert found.not_used == (held("b", GPU1), held("c", GPU0))


def test_another_container_of_the_pod_may_use_what_one_was_given():
    found = compare([held("a", GPU0)], [Use(owner("a", "side"), GPU0)])
    assert found.not_entitled == ()
    assert found.not_used == ()


@pytest.mark.parametrize(
    ("gave", "used"), [(UNKNOWN, GPU0), (GPU0, UNKNOWN), (GPU1, MIG), (MIG, GPU1)]
)
def test_what_is_not_known_or_a_part_accuses_nobody(gave, used):
    found = compare([held("a", gave)], [Use(owner("a"), used)], mig_parents={MIG: GPU1})
    assert found.not_entitled == ()
    assert found.not_used == ()
