"""Pods, namespaces and ResourceSlices, as an API server sends them."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

Object = dict[str, Any]
NODE = "node-a"


def container_id(name: str) -> str:
    """Return 64 hex digits that only this name has."""
    return hashlib.sha256(name.encode()).hexdigest()


def pod_uid(name: str) -> str:
    """Return a UID that only this name has."""
    return str(uuid.UUID(hashlib.md5(name.encode()).hexdigest()))


def status(name: str, current: str = "", *, previous: str = "", state: str = "running") -> Object:
    """Return one container status; ids without a scheme, "" for none."""
    one: Object = {"name": name, "ready": state == "running", "state": {}, "lastState": {}}
    if state == "running":
        one["state"] = {"running": {"startedAt": "2026-11-01T00:00:00Z"}}
    elif state == "terminated":
        ended = {"exitCode": 0, "containerID": f"containerd://{current}"}
        one["state"] = {"terminated": ended}
    else:
        one["state"] = {"waiting": {"reason": "ContainerCreating"}}
    if current:
        one["containerID"] = f"containerd://{current}"
    if previous:
        ended = {"exitCode": 137, "containerID": f"containerd://{previous}"}
        one["lastState"] = {"terminated": ended}
    return one


def pod(
    name: str,
    namespace: str = "ml",
    *,
    uid: str = "",
    node: str = NODE,
    containers: list[Object] | None = None,
    init: list[Object] | None = None,
    ephemeral: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    phase: str = "Running",
) -> Object:
    """Return a pod; by default with one running container called `main`."""
    if containers is None:
        containers = [status("main", container_id(f"{namespace}/{name}/main"))]
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": uid or pod_uid(f"{namespace}/{name}"),
        "labels": labels or {},
        "annotations": annotations or {},
        # Real pods carry kilobytes that nobody reads.
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}],
    }
    if owner:
        kind, owner_name = owner
        reference = {"kind": kind, "name": owner_name, "controller": True, "uid": "x"}
        metadata["ownerReferences"] = [{"kind": "Other", "name": "o"}, reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [{"name": one["name"], "env": [{"name": "A"}]} for one in containers],
        },
        "status": {
            "phase": phase,
            "containerStatuses": containers,
            "initContainerStatuses": init or [],
            "ephemeralContainerStatuses": ephemeral or [],
        },
    }


def static_pod(name: str, config_hash: str, **more: Any) -> Object:
    """Return a mirror pod: its cgroup is named by the hash, not by its UID."""
    marks = {"kubernetes.io/config.hash": config_hash, "kubernetes.io/config.mirror": config_hash}
    return pod(name, "kube-system", annotations=marks, owner=("Node", NODE), **more)


def namespace(name: str, annotations: dict[str, str] | None = None) -> Object:
    """Return a namespace."""
    meta = {"name": name, "uid": pod_uid(name), "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def resource_slice(
    name: str, devices: dict[str, str], *, node: str = NODE, old: bool = False
) -> Object:
    """Return a ResourceSlice of `gpu.nvidia.com`: UUID by device name; `old` is v1beta1's shape."""
    made = []
    for device, gpu in devices.items():
        attributes = {"uuid": {"string": gpu}, "type": {"string": "gpu"}, "index": {"int": 0}}
        made.append(
            {"name": device, "basic": {"attributes": attributes}}
            if old
            else {"name": device, "attributes": attributes}
        )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": pod_uid(name)},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": made,
        },
    }


def node(name: str = NODE, annotations: dict[str, str] | None = None) -> Object:
    """Return a node; its status is long, as of real ones."""
    images = [{"names": [f"image-{number}@sha256:{'0' * 64}"]} for number in range(50)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": pod_uid(name), "annotations": annotations or {}},
        "spec": {"podCIDR": "192.0.2.0/24"},
        "status": {"images": images, "capacity": {"nvidia.com/gpu": "8"}},
    }


def config_map(name: str, namespace: str, data: dict[str, str]) -> Object:
    """Return a ConfigMap."""
    meta = {"name": name, "namespace": namespace, "uid": pod_uid(f"{namespace}/{name}")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
