"""The whole agent on a node of two pods that share a GPU: right through every restart."""

from __future__ import annotations

import pytest

from tests.k8s.fakes.api_server import NAMESPACES
from tests.k8s.fakes.objects import namespace
from tests.k8s.whole import Cluster, by_pod, seconds_of, wait_for
from tests.linux.agents import metrics

DEMAND = "launches_total"


@pytest.fixture
def cluster(tmp_path, server, kubelet):
    made = Cluster(tmp_path, server, kubelet)
    yield made
    made.close()


def check(cluster: Cluster, text: str, turns: dict[str, int], live: dict[str, int]) -> None:
    """Hold /metrics against what each pod did, and the sum against the oracle.

    Args:
        cluster: The node.
        text: Its /metrics.
        turns: Turns since the agent runs, by pod.
        live: Turns of the process that runs now, by pod; its memory is what they allocated.
    """
    pods = {"a": cluster.a, "b": cluster.b}
    launched = {name: turns[name] * pods[name].launches for name in pods}
    assert by_pod(text, DEMAND) == launched
    for direction in ("htod", "dtoh"):
        copied = {name: turns[name] * pods[name].size for name in pods}
        assert by_pod(text, "copy_bytes_total", direction=direction) == copied
        assert by_pod(text, "copies_total", direction=direction) == turns
    assert by_pod(text, "sync_calls_total") == turns
    requested = {name: live[name] * pods[name].size for name in pods}
    assert by_pod(text, "memory_requested_bytes", family="device") == requested
    for name, one in pods.items():
        for key in metrics(text, "gpugauge_launches_total"):
            labels = dict(key)
            if labels["pod"] == name:
                assert labels["namespace"] == "ml"
                assert labels["container"] == "main"
                assert labels["workload"] == f"{name}-set"
                assert labels["gpu_uuid"] == cluster.gpu_uuid
                assert labels["scope"] == "pod"
        assert one.runs


def check_against_oracle(cluster: Cluster, text: str) -> None:
    """Hold the sums of both pods against all that happened on the device since it exists."""
    rows = cluster.machine.oracle.truths()
    calls = cluster.machine.oracle.calls()
    assert sum(by_pod(text, DEMAND).values()) == calls["cuLaunchKernel"]
    for direction in ("htod", "dtoh"):
        copied = by_pod(text, "copy_bytes_total", direction=direction)
        assert sum(copied.values()) == sum(row.values[f"bytes_{direction}"] for row in rows)
    blocked = by_pod(text, "blocked_seconds_total", cause="synchronize")
    # A call lasts longer than the driver's own wait in it, and shorter than the program's line.
    assert sum(blocked.values()) >= seconds_of(rows, "blocked_synchronize_ns") > 0
    for one in (cluster.a, cluster.b):
        assert 0 < blocked[one.name] <= one.waited_ns / 1e9


def value(text: str, name: str, **labels: str) -> float:
    """Return the sum of a metric's samples, of those with these labels."""
    found = metrics(text, f"gpugauge_{name}").items()
    return sum(each for key, each in found if labels.items() <= dict(key).items())


def known(text: str) -> bool:
    """Whether every device has its name: that takes an answer of NVML after the first use."""
    return all(
        dict(key)["gpu_uuid"] != "unknown" for key in metrics(text, "gpugauge_launches_total")
    )


def held_by_device(cluster: Cluster) -> int:
    return sum(row.values["held_bytes"] for row in cluster.machine.oracle.truths())


def test_two_pods_on_one_gpu_through_every_restart(cluster):
    server, kubelet, a, b = cluster.server, cluster.kubelet, cluster.a, cluster.b
    # The agent starts before anything that it asks.
    server.stop()
    kubelet.stop()
    cluster.start_agent()
    text = cluster.text()
    assert by_pod(text, DEMAND) == {}
    assert value(text, "agent_pods_up") == 0
    assert value(text, "agent_entitlements_up") == 0
    server.start()
    kubelet.start()
    cluster.give(a, b)
    for one in (a, b):
        one.start()
        one.show()
        one.work()
    wait_for(cluster, lambda text: set(by_pod(text, DEMAND)) == {"a", "b"})
    wait_for(cluster, lambda text: value(text, "agent_pods_up") == 1)
    wait_for(cluster, lambda text: set(by_pod(text, "entitled_gpus")) == {"a", "b"})
    text = wait_for(cluster, known)
    check(cluster, text, {"a": 1, "b": 1}, {"a": 1, "b": 1})
    check_against_oracle(cluster, text)
    text = wait_for(cluster, lambda text: len(by_pod(text, "memory_held_bytes")) == 2)
    assert sum(by_pod(text, "memory_held_bytes").values()) == held_by_device(cluster)
    assert by_pod(text, "entitled_gpus") == {"a": 1, "b": 1}
    assert by_pod(text, "entitlement_gap") == {}
    assert value(text, "device_pods", gpu_uuid=cluster.gpu_uuid) == 2

    # The API server and the kubelet go away, and come back; the pods work on.
    server.stop()
    kubelet.stop(keep_socket=True)
    a.work()
    b.work()
    check(cluster, cluster.text(), {"a": 2, "b": 2}, {"a": 2, "b": 2})
    server.compact()
    server.start()
    kubelet.start()
    cluster.give(a)  # b has lost its device to nobody, and works on
    a.work()
    text = wait_for(
        cluster, lambda text: by_pod(text, "entitlement_gap", kind="not_entitled") == {"b": 1}
    )
    assert by_pod(text, "entitled_gpus") == {"a": 1}
    check(cluster, text, {"a": 3, "b": 2}, {"a": 3, "b": 2})

    # A pod restarts: its counts go on, its memory begins anew.
    b.end()
    b.start()
    b.show()
    b.work()
    wait_for(cluster, lambda text: by_pod(text, DEMAND).get("b", 0) > 2 * b.launches)
    text = wait_for(cluster, known)
    check(cluster, text, {"a": 3, "b": 3}, {"a": 3, "b": 1})
    check_against_oracle(cluster, text)
    assert value(text, "agent_unresolved_processes") == 0

    # The agent restarts: it counts from then on, and says what it cannot know.
    assert cluster.agent is not None
    cluster.agent.end()
    before = cluster.machine.oracle.calls()["cuLaunchKernel"]
    cluster.start_agent()
    wait_for(cluster, lambda text: value(text, "agent_pods_up") == 1)
    a.work()
    b.work()
    text = wait_for(cluster, lambda text: set(by_pod(text, DEMAND)) == {"a", "b"})
    counted = by_pod(text, DEMAND)
    assert counted == {"a": a.launches, "b": b.launches}
    assert sum(counted.values()) == cluster.machine.oracle.calls()["cuLaunchKernel"] - before
    assert by_pod(text, "memory_requested_bytes", family="device") == {}
    assert value(text, "agent_incomplete_processes") == 2
    b.end()
    b.start()
    b.show()
    b.work()
    text = wait_for(cluster, lambda text: by_pod(text, DEMAND).get("b", 0) > b.launches)
    assert by_pod(text, DEMAND) == {"a": a.launches, "b": 2 * b.launches}
    assert by_pod(text, "memory_requested_bytes", family="device") == {"b": b.size}
    assert "Traceback" not in cluster.agent.text


def test_a_pod_that_opted_out_is_present_and_not_counted(cluster):
    a, b = cluster.a, cluster.b
    cluster.give(a, b)
    cluster.start_agent()
    for one in (a, b):
        one.start()
        # Its first calls come before its annotation is known.
        one.work()
    a.show({"gpugauge.io/trace": "off"})
    b.show()
    wait_for(cluster, lambda text: set(by_pod(text, DEMAND)) == {"b"})
    a.work()
    b.work()
    text = wait_for(cluster, lambda text: by_pod(text, DEMAND) == {"b": 2 * b.launches})
    for line in text.splitlines():
        assert 'pod="a"' not in line or line.startswith("gpugauge_entitled_gpus")
    assert value(text, "device_processes", gpu_uuid=cluster.gpu_uuid, state="context") == 2
    assert cluster.agent is not None
    assert {one["owner"]["pod"] for one in cluster.agent.snapshot()["processes"]} == {"b"}
    # The whole namespace opts out.
    cluster.server.put(NAMESPACES, namespace("ml", {"gpugauge.io/trace": "off"}))
    b.work()
    wait_for(cluster, lambda text: not cluster.agent.snapshot()["processes"])
