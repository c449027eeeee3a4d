"""Did the scheduler find a node, and what kept it from one?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.request_path import NodeFacts, PodRequest
from gpugauge.explain.check import NotSeenError, broken, check, need, ok, warning
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import (
    DRA_DRIVER,
    asked,
    asking,
    counts_text,
    gpus,
    has_devices,
    keeps_away,
    refused_devices,
    taint_text,
    taken,
    tolerated,
    wanted,
)
from gpugauge.explain.report import Answer, Layer

_SPOILED = ((570, 124, 6), (570, 158, 1))
"""Drivers with which plugins offer no whole GPUs on nodes with mixed MIG."""


@check(Layer.SCHEDULING, 3, node=True)
def daemon_sets(e: Evidence) -> Iterator[Answer]:
    """NVIDIA's DaemonSets tolerate the taints of the GPU nodes; else there is no plugin."""
    if e.daemon_sets is None:
        return  # optional right; what it would show is seen at the node too
    nodes = e.nodes if e.nodes is not None else ((e.node,) if e.node else ())
    tainted = {
        taint
        for node in nodes
        for taint in node.taints
        if "nvidia" in taint.key or "gpu" in taint.key
    }
    for one in e.daemon_sets:
        kept = [t for t in sorted(tainted, key=taint_text) if not tolerated(t, one.tolerations)]
        if one.desired == 0 and kept:
            yield broken(
                f"DaemonSet {one.namespace}/{one.name} wants 0 pods; it does not tolerate "
                f"{taint_text(kept[0])}",
                f"a toleration of {kept[0].key} with operator Exists",
                f"kubectl -n {one.namespace} edit daemonset {one.name}",
                case=3,
            )


@check(Layer.SCHEDULING, 4)
def out_of_resource(e: Evidence) -> Iterator[Answer]:
    """The kubelet took what the scheduler had counted on, or a node came before its plugin."""
    pod = wanted(e)
    if refused_devices(pod):
        yield broken(
            f"the kubelet refused it: {pod.reason}; the node was ready before its device "
            "plugin had registered, or another pod was quicker",
            "devices registered before pods arrive",
            f"kubectl -n {pod.namespace} delete pod {pod.name}   # its controller makes another",
            case=4,
        )
    elif not pod.node and any(
        event.reason == "TriggeredScaleUp" and event.name == pod.name for event in e.events or ()
    ):
        yield warning(
            "the autoscaler adds a node for it; a node without devices yet may be given up",
            "a startup taint until the device plugin has registered",
            "kubectl get nodes -L nvidia.com/gpu.present",
            case=4,
        )


@check(Layer.SCHEDULING, 1, 2, 5, 6)
def bound(e: Evidence) -> Iterator[Answer]:
    """A node was found; if not, each reason of the scheduler beside what the nodes show."""
    pod = wanted(e)
    if pod.node:
        yield ok(f"bound to {pod.node}")
        return
    if pod.phase in ("Succeeded", "Failed"):
        raise NotSeenError(f"it ended ({pod.phase}) without a node")
    told = pod.scheduled_message or next(
        (
            event.message
            for event in reversed(e.events or ())
            if event.reason == "FailedScheduling" and event.name == pod.name
        ),
        "",
    )
    if not told:
        why = "" if e.events is not None else f" ({e.why('events')})"
        raise NotSeenError(f"the scheduler has said nothing of it yet{why}")
    if not asked(pod) and not pod.claims:
        yield broken(told, "a node that fits", _describe(pod))
        return
    answers = [*_taints(e, pod, told), *_claims(e, pod, told), *_insufficient(e, pod, told)]
    yield from answers or [broken(told, "a node that fits", _describe(pod))]


def _taints(e: Evidence, pod: PodRequest, told: str) -> Iterator[Answer]:
    if "untolerated taint" not in told and "didn't tolerate" not in told:
        return
    with_gpus = [n for n in e.nodes or () if _has(n, pod)]
    kept = [(n, t) for n in with_gpus for t in keeps_away(n, pod.tolerations)]
    if with_gpus and len({n.name for n, _ in kept}) < len(with_gpus):
        return  # a node with the GPUs is open to it: the taints are not what stops it
    if kept:
        node, taint = kept[0]
        proof = f"node {node.name} has taint {taint_text(taint)}; the scheduler: {told}"
        wanted_key = taint.key
    else:
        proof, wanted_key = f"the scheduler: {told}", "that taint"
    yield broken(
        proof,
        f"the pod tolerates {wanted_key}",
        f"add to spec.tolerations {{key: {wanted_key}, operator: Exists}}, then "
        f"kubectl -n {pod.namespace} get pod {pod.name} -w",
        case=2,
    )


def _claims(e: Evidence, pod: PodRequest, told: str) -> Iterator[Answer]:
    if not pod.claims or "claim" not in told.lower():
        return
    offered = [s for s in e.slices or () if s.driver == DRA_DRIVER]
    if e.slices is not None and not offered:
        proof = f"no ResourceSlice of {DRA_DRIVER} exists; the scheduler: {told}"
    else:
        names = ", ".join(c.name for c in e.claims or () if not c.allocated)
        proof = f"claim {names or pod.claims[0].name} is not allocated; the scheduler: {told}"
    yield broken(
        proof,
        "ResourceSlices with free devices of the claim's class",
        "kubectl get resourceslices; kubectl get pods -A | grep dra-driver",
        case=6,
    )


def _insufficient(e: Evidence, pod: PodRequest, told: str) -> Iterator[Answer]:
    lacking = [resource for resource in asked(pod) if f"Insufficient {resource}" in told]
    if not lacking:
        return
    resource = lacking[0]
    if e.nodes is None:
        yield broken(
            told,
            f"a node with {asked(pod)[resource]} {resource} free",
            f"kubectl get nodes -o custom-columns=N:.metadata.name,"
            f"GPU:.status.allocatable.{resource.replace('.', chr(92) + '.')}",
            case=1,
        )
        return
    spoiled = [n for n in e.nodes if _spoiled(n)]
    offering = [n for n in e.nodes if n.allocatable.get(resource, 0)]
    if resource == "nvidia.com/gpu" and spoiled and not offering:
        yield broken(
            f"node {spoiled[0].name} has mixed MIG and driver "
            f"{_driver(spoiled[0])}; it offers no {resource}",
            "a driver before 570.124.06 or after 570.158.01 beside mixed MIG",
            "kubectl get nodes -L nvidia.com/cuda.driver-version.full,nvidia.com/mig.strategy",
            case=5,
            guess=True,
        )
        return
    if not offering:
        marked = [n.name for n in e.nodes if n.labels.get("nvidia.com/gpu.present") == "true"]
        look = f"gpugauge explain --node   # on {marked[0]}" if marked else "kubectl get nodes"
        near = sorted({r for n in e.nodes for r in gpus(n.allocatable)})
        offer = f"; nodes offer {', '.join(near)}" if near else ""
        yield broken(
            f"no node has {resource} to give{offer}; the scheduler: {told}",
            f"a device plugin that offers {resource}",
            look,
            case=1,
        )
        return
    most = max(n.allocatable[resource] for n in offering)
    proof = f"nodes that offer {resource}: {len(offering)}, with {most} at most"
    if most >= asked(pod)[resource]:
        proof += ", and other pods hold them"
    yield broken(
        f"{proof}; the scheduler: {told}",
        f"a node with {asked(pod)[resource]} {resource} free",
        f"kubectl describe nodes | grep -A12 'Allocated resources' | grep {resource}",
        case=1,
    )


@check(Layer.SCHEDULING, node=True)
def room(e: Evidence) -> Iterator[Answer]:
    """The node is ready, and what of its devices is taken."""
    if e.pod_wanted and not (wanted(e).node and asking(e)):
        return
    node = need(e.node, e, "node")
    if node.ready is False:
        found = warning if has_devices(e) else broken
        yield found(
            f"node {node.name} is not ready",
            "a node that is ready",
            f"kubectl describe node {node.name}",
        )
    if not e.pod_wanted:
        kept = [taint_text(t) for t in node.taints]
        offered = gpus(node.allocatable)
        held = {r: c for r, c in taken(e).items() if r in offered}
        yield ok(
            f"allocatable {counts_text(offered)}; pods ask for {counts_text(held)}; "
            f"taints {', '.join(kept) or 'none'}"
        )


def _has(node: NodeFacts, pod: PodRequest) -> bool:
    need_of = asked(pod)
    return bool(need_of) and all(node.allocatable.get(r, 0) >= c for r, c in need_of.items())


def _driver(node: NodeFacts) -> str:
    return node.labels.get("nvidia.com/cuda.driver-version.full", "")


def _spoiled(node: NodeFacts) -> bool:
    if node.labels.get("nvidia.com/mig.strategy") != "mixed":
        return False
    parts = _driver(node).split(".")
    if len(parts) != 3 or not all(p.isdecimal() for p in parts):
        return False
    version = tuple(int(p) for p in parts)
    return _SPOILED[0] <= version <= _SPOILED[1]


def _describe(pod: PodRequest) -> str:
    return f"kubectl -n {pod.namespace} describe pod {pod.name}"


CHECKS = (daemon_sets, out_of_resource, bound, room)
