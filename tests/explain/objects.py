"""Pods, nodes, events and claims, as an API server sends them; healthy unless changed."""

from __future__ import annotations

from typing import Any

from tests.k8s.fakes.objects import container_id, pod_uid

Object = dict[str, Any]
NODE = "gpu-node-1"
GPU = "nvidia.com/gpu"
STARTED = "2026-11-01T08:00:00Z"
STARTED_UNIX_NS = 1_793_520_000 * 1_000_000_000


def container(name: str = "main", gpus: int = 1, resource: str = GPU, **more: Any) -> Object:
    """Return a container of a pod's spec."""
    one: Object = {"name": name, "image": "registry.example/train:3", "env": []}
    if gpus:
        one["resources"] = {"limits": {resource: str(gpus)}, "requests": {resource: str(gpus)}}
    return {**one, **more}


def running(name: str = "main", pod: str = "ml/train-0") -> Object:
    """Return the status of a running container."""
    return {
        "name": name,
        "containerID": f"containerd://{container_id(f'{pod}/{name}')}",
        "state": {"running": {"startedAt": STARTED}},
        "restartCount": 0,
    }


def waiting(name: str, reason: str, message: str = "", **more: Any) -> Object:
    """Return the status of a container that does not run."""
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **more}


def ended(name: str, exit_code: int, reason: str = "Completed", message: str = "") -> Object:
    """Return the status of a container that ended."""
    state = {"exitCode": exit_code, "reason": reason, "message": message}
    return {"name": name, "state": {"terminated": state}}


def pod(name: str = "train-0", namespace: str = "ml", **more: Any) -> Object:
    """Return a running pod with one GPU; `spec`, `status` and `metadata` are merged in."""
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": pod_uid(f"{namespace}/{name}"),
            "creationTimestamp": STARTED,
        },
        "spec": {
            "nodeName": NODE,
            "runtimeClassName": "nvidia",
            "containers": [container()],
            "tolerations": [],
        },
        "status": {
            "phase": "Running",
            "startTime": STARTED,
            "containerStatuses": [running(pod=f"{namespace}/{name}")],
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        },
    }
    for part, changes in more.items():
        made[part] = {**made[part], **changes}
    return made


def plugin_pod(**more: Any) -> Object:
    """Return the device plugin's pod."""
    spec = {
        "nodeName": NODE,
        "runtimeClassName": "nvidia",
        "containers": [
            {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "env": []}
        ],
    }
    one = pod("nvidia-device-plugin-x", "gpu-operator", spec=spec)
    one["metadata"]["ownerReferences"] = [
        {"kind": "DaemonSet", "name": "nvidia-device-plugin-daemonset", "controller": True}
    ]
    one["status"]["containerStatuses"] = [running("plugin", "gpu-operator/nvidia-device-plugin-x")]
    for part, changes in more.items():
        one[part] = {**one[part], **changes}
    return one


def node(name: str = NODE, capacity: Object | None = None, **more: Any) -> Object:
    """Return a node with two GPUs."""
    amounts = {GPU: "2"} if capacity is None else capacity
    made: Object = {
        "metadata": {
            "name": name,
            "uid": pod_uid(name),
            "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "2"},
        },
        "spec": {"taints": []},
        "status": {
            "capacity": {"cpu": "64", **amounts},
            "allocatable": {"cpu": "63", **amounts},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": STARTED}],
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
        },
    }
    for part, changes in more.items():
        made[part] = {**made[part], **changes}
    return made


def event(
    reason: str,
    message: str,
    *,
    name: str = "train-0",
    kind: str = "Pod",
    namespace: str = "ml",
    at: str = STARTED,
    uid: str = "",
) -> Object:
    """Return a warning event."""
    return {
        "metadata": {"name": f"{name}.{reason}", "namespace": namespace, "uid": pod_uid(message)},
        "involvedObject": {"kind": kind, "name": name, "namespace": namespace, "uid": uid},
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": at,
    }


def daemon_set(name: str, desired: int, tolerations: list[Object]) -> Object:
    """Return a DaemonSet."""
    return {
        "metadata": {"name": name, "namespace": "gpu-operator", "uid": pod_uid(name)},
        "spec": {"template": {"spec": {"tolerations": tolerations, "containers": []}}},
        "status": {"desiredNumberScheduled": desired, "numberReady": desired},
    }


def claim(name: str, device: str = "") -> Object:
    """Return a ResourceClaim, allocated where a device is given."""
    made: Object = {
        "metadata": {"name": name, "namespace": "ml", "uid": pod_uid(name)},
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
            }
        },
        "status": {},
    }
    if device:
        result = {"driver": "gpu.nvidia.com", "pool": NODE, "device": device, "request": "gpu"}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return made
