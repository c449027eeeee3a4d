"""Does the device plugin (or DRA driver) of the node offer its GPUs, healthy and as labelled?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.podresources import RESOURCES
from gpugauge.explain.check import broken, check, need, ok, warning
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import (
    counts_text,
    gpus,
    has_devices,
    in_question,
    is_plugin,
    uses_claims,
)
from gpugauge.explain.report import Answer, Layer

MIXED_PROFILES = "more than one MIG device type"


def on_a_node(e: Evidence) -> None:
    """Leave the step not seen while the pod has no node, or needs none of this."""
    in_question(e)
    if e.pod is not None and not e.pod.node:
        need(None, e, "node")


@check(Layer.PLUGIN, 1, 6, 13, node=True)
def capacity(e: Evidence) -> Iterator[Answer]:
    """The node has GPUs to give, by plugin or by DRA driver."""
    on_a_node(e)
    if uses_claims(e):
        yield from _slices(e)
        return
    node = need(e.node, e, "node")
    if any(gpus(node.capacity).values()):
        yield ok(f"capacity {counts_text(gpus(node.capacity))}")
        return
    found = warning if has_devices(e) else broken
    pods = [p for p in e.node_pods or () if is_plugin(p)]
    expected = "nvidia.com/gpu in the node's capacity"
    if e.node_pods is None or not pods:
        unseen = f" ({e.why('node_pods')})" if e.node_pods is None else "; no plugin pod runs on it"
        yield found(
            f"node {node.name} has no nvidia.com resource in its capacity{unseen}",
            expected,
            f"kubectl get pods -A --field-selector spec.nodeName={node.name} | grep nvidia",
            case=1,
        )
        return
    one = pods[0]
    last = next((c.last_message or c.message for c in one.containers if c.last_message), "")
    if MIXED_PROFILES in last:
        return  # told by `mig`
    proof = f"plugin pod {one.namespace}/{one.name} is {one.phase}, the node's capacity is 0"
    default = e.toolkit is not None and e.toolkit.nvidia_default
    if not one.runtime_class and not default:
        proof += "; it has no runtimeClassName"
    yield found(
        proof + (f"; it said: {last}" if last else ""),
        f"{expected}; the plugin must reach libnvidia-ml.so.1 (runtimeClassName: nvidia, or "
        "nvidia as the default runtime)",
        f"kubectl -n {one.namespace} logs {one.name}   # `No devices found`, `could not load NVML`",
        case=13,
    )


def _slices(e: Evidence) -> Iterator[Answer]:
    slices = need(e.slices, e, "slices")
    here = sum(s.devices for s in slices if s.node == e.node_name)
    if here:
        yield ok(f"ResourceSlices of {e.node_name} offer {here} devices")
    else:
        yield broken(
            f"no ResourceSlice offers devices of {e.node_name}",
            "a ResourceSlice of gpu.nvidia.com for the node",
            "kubectl get resourceslices; kubectl get pods -A | grep dra-driver",
            case=6,
        )


@check(Layer.PLUGIN, 14, node=True)
def health(e: Evidence) -> Iterator[Answer]:
    """No device is marked unhealthy: allocatable is as large as capacity."""
    on_a_node(e)
    if uses_claims(e):
        return
    node = need(e.node, e, "node")
    for resource, count in gpus(node.capacity).items():
        now = node.allocatable.get(resource, 0)
        if now < count:
            told = [line.text for line in e.log or () if "Xid" in line.text]
            proof = f"; the Linux log: {told[-1]}" if told else ""
            found = broken if now == 0 else warning
            yield found(
                f"{now} of {count} {resource} are allocatable: {count - now} unhealthy{proof}",
                "allocatable equals capacity",
                "repair or reset the GPU, then restart the device plugin (it never takes one back)",
                case=14,
            )
        elif count:
            yield ok(f"{now} allocatable")


@check(Layer.PLUGIN, 13, node=True)
def registered(e: Evidence) -> Iterator[Answer]:
    """The plugin's socket is there and the kubelet counts its devices."""
    on_a_node(e)
    if uses_claims(e):
        return
    kubelet = need(e.kubelet, e, "kubelet")
    if not kubelet.socket:
        yield broken(
            "the kubelet's PodResources socket is not there",
            "pod-resources/kubelet.sock below the kubelet's folder",
            "systemctl status kubelet   # another root? give --kubernetes-kubelet-path",
        )
        return
    offered = need(e.allocatable, e, "allocatable")
    by_resource: dict[str, int] = {}
    for one in offered:
        if one.resource.startswith(RESOURCES):
            by_resource[one.resource] = by_resource.get(one.resource, 0) + 1
    if by_resource:
        yield ok(f"the kubelet can give {counts_text(by_resource)}")
        return
    sockets = kubelet.plugin_sockets
    proof = "the kubelet can give no nvidia.com device"
    if sockets is not None:
        proof += f"; plugin sockets: {', '.join(sockets) or 'none'}"
    found = warning if has_devices(e) else broken
    yield found(
        proof,
        "a registered plugin: nvidia*.sock in device-plugins, and devices in the kubelet",
        "kubectl get pods -A -o wide | grep device-plugin; restart it after the kubelet",
        case=13,
    )


@check(Layer.PLUGIN, 47, node=True, pod=False)
def operator(e: Evidence) -> Iterator[Answer]:
    """Pods of the GPU Operator do not wait for each other for ever."""
    pods = need(e.node_pods, e, "node_pods")
    validations = e.toolkit.validations if e.toolkit else None
    for one in pods:
        if "gpu-operator" not in one.namespace and not one.daemon_set.startswith("nvidia"):
            continue
        waits = [c for c in one.containers if c.kind == "init" and c.state != "terminated"]
        crashes = [c for c in one.containers if c.reason == "CrashLoopBackOff"]
        if crashes:
            yield broken(
                f"{one.namespace}/{one.name} crash-loops ({crashes[0].restarts} restarts)"
                + (f": {crashes[0].last_message}" if crashes[0].last_message else ""),
                "the operator's pods running",
                f"kubectl -n {one.namespace} logs {one.name} -c {crashes[0].name} --previous",
                case=47,
            )
        elif waits and one.phase == "Pending":
            have = ", ".join(validations or ()) or "none"
            yield broken(
                f"{one.namespace}/{one.name} waits in init container {waits[0].name}; "
                f"validations present: {have}",
                "/run/nvidia/validations/driver-ready and toolkit-ready",
                f"kubectl -n {one.namespace} logs {one.name} -c {waits[0].name}",
                case=47,
            )


CHECKS = (capacity, health, registered, operator)
