"""PodResources over a real socket, and a kubelet that restarts, limits and lies."""

from __future__ import annotations

import pytest

from gpugauge.attribution.allocation import Allocation
from gpugauge.attribution.podresources import SHARES_EVERY_POLLS, KubeletClient
from tests.k8s.fakes.kubelet import FakeKubelet, Given
from tests.k8s.fakes.waiting import until

A = "GPU-0a1b2c3d-1111-2222-3333-444455556666"
B = "GPU-0a1b2c3d-1111-2222-3333-777788889999"


@pytest.fixture
def client(kubelet):
    one = KubeletClient(str(kubelet.kubelet_path), deadline_seconds=0.5, poll_seconds=0.02)
    yield one
    one.stop()


def test_devices_by_container(kubelet, client):
    kubelet.given = [
        Given("ml", "b", "main", {"nvidia.com/gpu": [B], "rdma/hca": ["mlx5_0"]}),
        Given("ml", "a", "main", {"nvidia.com/gpu": [f"{A}::1", f"{A}::0"]}),
        Given("ml", "a", "side", {}),
        Given("ml", "c", "main", claims=[("ml", "claim", "gpu.nvidia.com", "node-a", "gpu-0"),
                                         ("ml", "net", "net.example", "node-a", "nic-0")]),
    ]  # fmt: skip
    kubelet.allocatable = {"nvidia.com/gpu": [f"{A}::{n}" for n in range(7)] + [B], "cpu": ["x"]}
    client.poll()
    assert client.error == ""
    assert client.allocations.devices == (
        Allocation("ml", "a", "main", "nvidia.com/gpu", f"{A}::0"),
        Allocation("ml", "a", "main", "nvidia.com/gpu", f"{A}::1"),
        Allocation("ml", "b", "main", "nvidia.com/gpu", B),
        Allocation("ml", "c", "main", "gpu.nvidia.com", "node-a/gpu-0", "ml/claim"),
    )
    assert client.allocations.shares == {A: 7}


def test_how_devices_are_shared_is_asked_when_they_change_and_now_and_then(kubelet, client):
    kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [f"{A}::0"]})]
    kubelet.allocatable = {"nvidia.com/gpu": [f"{A}::{n}" for n in range(5)]}
    client.poll()
    kubelet.allocatable = {"nvidia.com/gpu": [f"{A}::{n}" for n in range(11)]}
    for _ in range(SHARES_EVERY_POLLS):
        client.poll()
        assert client.allocations.shares == {A: 5}
    client.poll()
    assert client.allocations.shares == {A: 11}
    kubelet.allocatable = {"nvidia.com/gpu": [f"{A}::{n}" for n in range(3)]}
    kubelet.given = [Given("ml", "b", "main", {"nvidia.com/gpu": [f"{A}::0"]})]
    client.poll()
    assert client.allocations.shares == {A: 3}


def test_renamed_resources_and_drivers_can_be_told(kubelet):
    kubelet.given = [
        Given("ml", "a", "main", {"corp.example/h200": [A], "nvidia.com/gpu": [B]}),
    ]
    client = KubeletClient(str(kubelet.kubelet_path), resources=("corp.example/",))
    client.poll()
    client.stop()
    assert [one.device_id for one in client.allocations.devices] == [A]


def test_an_equal_answer_is_no_change_and_order_does_not_matter(kubelet, client):
    kubelet.given = [Given("ml", name, "main", {"nvidia.com/gpu": [A, B]}) for name in "ab"]
    client.poll()
    version = client.allocations.version
    kubelet.given = [Given("ml", name, "main", {"nvidia.com/gpu": [B, A]}) for name in "ba"]
    client.poll()
    assert client.allocations.version == version
    kubelet.given.pop()
    client.poll()
    assert client.allocations.version == version + 1


@pytest.mark.parametrize("fault", ["exhausted", "silence", "malformed", "huge"])
def test_a_fault_keeps_the_last_answer(kubelet, client, fault):
    kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [A]})]
    client.poll()
    before = client.allocations
    kubelet.fault = fault
    client.poll()
    assert client.allocations is before
    # Being limited is in order once there is an answer; all else is said.
    assert bool(client.error) is (fault != "exhausted")
    kubelet.fault = ""
    kubelet.release.set()
    kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [B]})]
    until(lambda: client.poll() or client.error == "")
    assert [one.device_id for one in client.allocations.devices] == [B]


def test_a_kubelet_that_limits_from_the_start_is_said(kubelet, client):
    kubelet.fault = "exhausted"
    client.poll()
    assert "RESOURCE_EXHAUSTED" in client.error
    assert not client.allocations.ready


def test_an_old_kubelet_without_allocatable_resources(kubelet, client):
    kubelet.fault = "unimplemented"
    kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [A]})]
    client.poll()
    assert client.error == ""
    assert len(client.allocations.devices) == 1


def test_a_restart_of_the_kubelet(kubelet, client):
    kubelet.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [A]})]
    client.start()
    until(lambda: client.allocations.ready)
    kubelet.stop(keep_socket=True)  # the file stays, and refuses connections
    until(lambda: "UNAVAILABLE" in client.error)
    assert len(client.allocations.devices) == 1
    kubelet.given = [Given("ml", "b", "main", {"nvidia.com/gpu": [B]})]
    kubelet.start()
    until(lambda: [one.pod for one in client.allocations.devices] == ["b"])
    assert client.error == ""


def test_no_kubelet_yet(tmp_path):
    client = KubeletClient(str(tmp_path), poll_seconds=0.02, deadline_seconds=0.5)
    client.start()
    until(lambda: "no kubelet socket" in client.error)
    with FakeKubelet(tmp_path) as fake:
        fake.given = [Given("ml", "a", "main", {"nvidia.com/gpu": [A]})]
        until(lambda: client.allocations.ready and client.error == "")
        client.stop()


def test_a_fifo_in_place_of_the_socket_is_not_opened(tmp_path):
    import os

    (tmp_path / "pod-resources").mkdir()
    os.mkfifo(tmp_path / "pod-resources/kubelet.sock")
    client = KubeletClient(str(tmp_path))
    client.poll()
    assert "no kubelet socket" in client.error
