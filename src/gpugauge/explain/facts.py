"""What several checks ask of the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from gpugauge.attribution.device_id import parse_device_id, parse_dra_device
from gpugauge.attribution.entitlement import DeviceNames
from gpugauge.attribution.podresources import RESOURCES
from gpugauge.attribution.request_path import ContainerRequest, NodeFacts, PodRequest, Taint
from gpugauge.explain.check import NotSeenError, need
from gpugauge.explain.evidence import ContainerSeen, DeviceNode, Evidence
from gpugauge.model.device import Device
from gpugauge.model.process import Process
from gpugauge.model.workload import UNKNOWN

DRA_DRIVER = "gpu.nvidia.com"
_GPU_FILE = re.compile(r"nvidia[0-9]{1,4}")


def gpu_limits(container: ContainerRequest) -> dict[str, str]:
    """Return the GPU resources in a container's limits, as written."""
    return {k: v for k, v in container.resources.items() if k.startswith(RESOURCES)}


def asked(pod: PodRequest) -> dict[str, int]:
    """Return how many of each GPU resource a pod needs: the larger of all app and any init."""
    app: dict[str, int] = {}
    init: dict[str, int] = {}
    for container in pod.containers:
        for resource, text in gpu_limits(container).items():
            if not text.isdecimal():
                continue
            if container.kind == "app":
                app[resource] = app.get(resource, 0) + int(text)
            else:
                init[resource] = max(init.get(resource, 0), int(text))
    return {r: max(app.get(r, 0), init.get(r, 0)) for r in sorted({*app, *init})}


def refused_devices(pod: PodRequest) -> bool:
    """Return whether the kubelet refused it for want of devices: `OutOfnvidia.com/gpu`."""
    return pod.reason.startswith(tuple(f"OutOf{prefix}" for prefix in RESOURCES))


def asks(pod: PodRequest) -> bool:
    """Return whether it asks for a GPU, by resource or by claim."""
    return any(asked(pod).values()) or bool(pod.claims)


def containers_that_ask(pod: PodRequest) -> tuple[ContainerRequest, ...]:
    """Return the containers with a GPU in their limits or a claim."""
    return tuple(c for c in pod.containers if c.claims or any(gpu_limits(c).values()))


def wanted(evidence: Evidence) -> PodRequest:
    """Return the pod.

    Raises:
        NotSeenError: it was not seen.
    """
    return need(evidence.pod, evidence, "pod")


def asking(evidence: Evidence) -> PodRequest:
    """Return the pod, which asks for a GPU.

    Raises:
        NotSeenError: it was not seen, or asks for none.
    """
    pod = wanted(evidence)
    if not asks(pod):
        raise NotSeenError("the pod asks for no GPU")
    return pod


def has_devices(evidence: Evidence) -> bool:
    """Return whether the kubelet already gave the pod devices: what fails later spares it."""
    return bool(evidence.pod_wanted and evidence.allocations is not None and given(evidence))


def in_question(evidence: Evidence) -> None:
    """Go on where the node's own layers matter: for the node, or a pod with a GPU on it.

    Raises:
        NotSeenError: the pod asks for no GPU. Where it was not seen, its node was looked at.
    """
    pod = evidence.pod
    if evidence.pod_wanted and pod is not None:
        asking(evidence)


def running(evidence: Evidence) -> tuple[tuple[ContainerRequest, ContainerSeen], ...]:
    """Return the running containers, as asked for and as seen.

    Raises:
        NotSeenError: none runs, or the node's /proc was not read.
    """
    pod = wanted(evidence)
    if not any(c.state == "running" for c in pod.containers):
        raise NotSeenError(f"no container of it runs ({pod.phase or 'phase unknown'})")
    seen = {c.name: c for c in need(evidence.containers, evidence, "containers")}
    found = tuple(
        (c, seen[c.name]) for c in pod.containers if c.state == "running" and c.name in seen
    )
    if not found:
        raise NotSeenError("no process of its containers was found on this node")
    return found


def given(evidence: Evidence) -> tuple[str, ...]:
    """Return the device ids that the kubelet gave to the pod.

    Raises:
        NotSeenError: the kubelet did not say.
    """
    listed = need(evidence.allocations, evidence, "allocations")
    return tuple(
        one.device_id for one in listed if f"{one.namespace}/{one.pod}" == evidence.pod_wanted
    )


def given_uuids(evidence: Evidence) -> frozenset[str]:
    """Return the UUIDs of the devices that the pod was given, as far as their ids tell.

    Raises:
        NotSeenError: the kubelet did not say.
    """
    listed = need(evidence.allocations, evidence, "allocations")
    driver = evidence.driver
    names = DeviceNames(
        devices=evidence.inventory.devices if evidence.inventory else (),
        minors={int(n): u for n, u in (driver.minors if driver else {}).items() if n.isdecimal()},
        dra_uuids={
            (s.driver, name): uuid for s in evidence.slices or () for name, uuid in s.uuids.items()
        },
    )
    found: set[str] = set()
    for one in listed:
        if f"{one.namespace}/{one.pod}" != evidence.pod_wanted:
            continue
        known = names.dra_uuids.get((one.resource, one.device_id)) if one.claim else None
        parse = parse_dra_device if one.claim else parse_device_id
        name = one.device_id.rpartition("/")[2] if one.claim else one.device_id
        found.update((known,) if known else names.uuids(parse(name)))
    return frozenset(found - {UNKNOWN})


def pod_devices(evidence: Evidence) -> tuple[Device, ...]:
    """Return the devices of NVML that the pod was given, or that its processes use."""
    inventory = evidence.inventory
    if inventory is None:
        return ()
    uuids: set[str] = set()
    if evidence.pod_wanted and evidence.allocations is not None:
        uuids = set(given_uuids(evidence))
    uuids |= {d.gpu_uuid for p in pod_processes(evidence) for d in p.devices}
    return tuple(d for d in inventory.devices if d.uuid in uuids and d.uuid)


def looked_at(evidence: Evidence) -> tuple[Device, ...]:
    """Return the devices in question: the pod's, or all when the node is looked at."""
    if evidence.inventory is None:
        return ()
    return pod_devices(evidence) if evidence.pod_wanted else evidence.inventory.devices


def pod_processes(evidence: Evidence) -> tuple[Process, ...]:
    """Return the pod's traced processes; none where the agent was not asked."""
    return tuple(
        p
        for p in evidence.processes or ()
        if evidence.pod_wanted and f"{p.owner.namespace}/{p.owner.pod}" == evidence.pod_wanted
    )


def errors(processes: Iterable[Process]) -> dict[int, int]:
    """Return failed CUDA calls by code."""
    found: dict[int, int] = {}
    for process in processes:
        for device in process.devices:
            for (_slot, code), count in device.errors.items():
                found[code] = found.get(code, 0) + count
    return found


def tolerated(taint: Taint, tolerations: Iterable[Taint]) -> bool:
    """Return whether a taint keeps no pod with these tolerations away."""
    if taint.effect == "PreferNoSchedule":
        return True
    return any(
        t.effect in ("", taint.effect)
        and (t.operator == "Exists" or (t.key == taint.key and t.value == taint.value))
        and t.key in ("", taint.key)
        for t in tolerations
    )


def keeps_away(node: NodeFacts, tolerations: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints of a node that pods with these tolerations do not tolerate."""
    kept = tuple(tolerations)
    return tuple(t for t in node.taints if not tolerated(t, kept))


def gpus(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the GPU resources of a node."""
    return {k: v for k, v in sorted(amounts.items()) if k.startswith(RESOURCES)}


def is_plugin(pod: PodRequest) -> bool:
    """Return whether a pod is NVIDIA's device plugin or DRA driver, by image and name."""
    words = ("k8s-device-plugin", "gpu-device-plugin", "k8s-dra-driver")
    if any(word in image for image in pod.images for word in words):
        return True
    return "nvidia" in pod.name and "device-plugin" in pod.name


def gpu_files(devices: Iterable[DeviceNode]) -> tuple[str, ...]:
    """Return the files of GPUs themselves: nvidia0, nvidia1."""
    return tuple(d.name for d in devices if _GPU_FILE.fullmatch(d.name))


def taken(evidence: Evidence) -> dict[str, int]:
    """Return what the live pods of the node ask for.

    Raises:
        NotSeenError: they were not seen.
    """
    total: dict[str, int] = {}
    for pod in need(evidence.node_pods, evidence, "node_pods"):
        if pod.phase not in ("Succeeded", "Failed"):
            for resource, count in asked(pod).items():
                total[resource] = total.get(resource, 0) + count
    return total


def uses_claims(evidence: Evidence) -> bool:
    """Return whether GPUs of this node are given by DRA claims, not by a device plugin."""
    if any(s.driver == DRA_DRIVER and s.node == evidence.node_name for s in evidence.slices or ()):
        return True
    return evidence.pod is not None and bool(evidence.pod.claims) and not asked(evidence.pod)


def messages(evidence: Evidence) -> Iterator[str]:
    """Yield what containers and events of the pod tell, the newest of each last."""
    pod = evidence.pod
    if pod is None:
        return
    for container in pod.containers:
        yield from filter(None, (container.message, container.last_message))
    for event in evidence.events or ():
        if event.kind == "Pod" and event.name == pod.name:
            yield event.message


def taint_text(taint: Taint) -> str:
    """Return a taint as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def counts_text(amounts: Mapping[str, int]) -> str:
    """Return `nvidia.com/gpu: 2`, several with commas."""
    return ", ".join(f"{name}: {count}" for name, count in sorted(amounts.items())) or "none"
