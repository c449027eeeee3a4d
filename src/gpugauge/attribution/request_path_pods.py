"""A pod, an event, a node, a claim: from what was decoded to what is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gpugauge.attribution import request_path_json as js
from gpugauge.attribution.names import clean
from gpugauge.attribution.request_path import (
    ENVIRONMENT,
    VALUE_LIMIT,
    ContainerRequest,
    DaemonSetFacts,
    Event,
    NodeFacts,
    PodClaim,
    PodRequest,
    Taint,
)

CONTAINERS_LIMIT = 128
LABELS = ("nvidia.com/", "feature.node.kubernetes.io/pci-10de", "cloud.google.com/gke-accelerator")
"""Prefixes of the node labels that are kept."""


def pod(data: bytes | bytearray | msgspec.Raw) -> PodRequest:
    """Return what is kept of a pod.

    Raises:
        ForeignDataError: it is none.
    """
    raw = js.decode(data, js.Pod)
    spec, status = raw.spec or js.PodSpec(), raw.status or js.PodStatus()
    owners = [o for o in raw.metadata.ownerReferences or () if o.controller]
    conditions = {c.type: c for c in status.conditions or ()}
    scheduled = conditions.get("PodScheduled")
    made = {c.name: c.resourceClaimName or "" for c in status.resourceClaimStatuses or ()}
    hosts = {
        volume.name
        for volume in spec.volumes or ()
        if volume.hostPath and (volume.hostPath.path.rstrip("/") + "/").startswith(("/dev/", "//"))
    }
    return PodRequest(
        namespace=clean(raw.metadata.namespace),
        name=clean(raw.metadata.name, 253),
        uid=clean(raw.metadata.uid),
        node=clean(spec.nodeName, 253),
        phase=clean(status.phase),
        reason=clean(status.reason),
        message=clean(status.message, VALUE_LIMIT),
        scheduled_message=clean(scheduled.message, VALUE_LIMIT)
        if scheduled and scheduled.status == "False"
        else "",
        runtime_class=clean(spec.runtimeClassName),
        tolerations=taints(spec.tolerations),
        node_selector=_texts(spec.nodeSelector),
        containers=_containers(spec, status, hosts),
        claims=tuple(
            PodClaim(clean(c.name), clean(c.resourceClaimName or made.get(c.name, ""), 253))
            for c in (spec.resourceClaims or ())[:CONTAINERS_LIMIT]
        ),
        created_unix_ns=js.unix_ns(raw.metadata.creationTimestamp),
        started_unix_ns=js.unix_ns(status.startTime),
        deleted=raw.metadata.deletionTimestamp is not None,
        daemon_set=next((clean(o.name) for o in owners if o.kind == "DaemonSet"), ""),
        images=tuple(
            clean(c.image, VALUE_LIMIT) for c in (spec.containers or ())[:CONTAINERS_LIMIT]
        ),
        ready="Ready" in conditions and conditions["Ready"].status == "True",
    )


def event(data: msgspec.Raw) -> Event:
    """Return what is kept of an event."""
    raw = js.decode(data, js.EventJson)
    about = raw.involvedObject or js.Involved()
    return Event(
        kind=clean(about.kind),
        name=clean(about.name, 253),
        reason=clean(raw.reason),
        message=clean((raw.message or "").replace("\n", " "), 2 * VALUE_LIMIT),
        uid=clean(about.uid),
        warning=raw.type == "Warning",
        last_unix_ns=js.unix_ns(raw.lastTimestamp) or js.unix_ns(raw.eventTime),
    )


def node(data: bytes | bytearray | msgspec.Raw) -> NodeFacts:
    """Return what is kept of a node."""
    raw = js.decode(data, js.NodeJson)
    spec, status = raw.spec or js.NodeSpec(), raw.status or js.NodeStatus()
    ready = next((c for c in status.conditions or () if c.type == "Ready"), None)
    labels = {k: v for k, v in (raw.metadata.labels or {}).items() if k.startswith(LABELS)}
    return NodeFacts(
        name=clean(raw.metadata.name, 253),
        capacity=extended(status.capacity),
        allocatable=extended(status.allocatable),
        taints=taints(spec.taints),
        labels=_texts(labels),
        unschedulable=bool(spec.unschedulable),
        ready=None if ready is None else ready.status == "True",
        ready_unix_ns=js.unix_ns(ready.lastTransitionTime) if ready else 0,
        kubelet_version=clean(status.nodeInfo.kubeletVersion) if status.nodeInfo else "",
    )


class _Template(msgspec.Struct):
    spec: js.PodSpec | None = None


class _DaemonSetSpec(msgspec.Struct):
    template: _Template | None = None


class _DaemonSetStatus(msgspec.Struct):
    desiredNumberScheduled: int = 0
    numberReady: int = 0


class _DaemonSet(msgspec.Struct):
    metadata: js.Meta
    spec: _DaemonSetSpec | None = None
    status: _DaemonSetStatus | None = None


def daemon_set(data: msgspec.Raw) -> DaemonSetFacts:
    """Return what is kept of a DaemonSet."""
    raw = js.decode(data, _DaemonSet)
    template = raw.spec.template if raw.spec else None
    status = raw.status or _DaemonSetStatus()
    return DaemonSetFacts(
        namespace=clean(raw.metadata.namespace),
        name=clean(raw.metadata.name, 253),
        desired=status.desiredNumberScheduled,
        ready=status.numberReady,
        tolerations=taints(template.spec.tolerations if template and template.spec else None),
    )


def taints(found: Iterable[js.Tolerance] | None) -> tuple[Taint, ...]:
    """Return taints, or tolerations."""
    return tuple(
        Taint(clean(t.key), clean(t.value), clean(t.effect), clean(t.operator) or "Equal")
        for t in list(found or ())[:CONTAINERS_LIMIT]
    )


def extended(amounts: Mapping[str, str] | None) -> dict[str, int]:
    """Return whole amounts of extended resources: those with a domain in their name."""
    return {
        clean(name): int(amount)
        for name, amount in (amounts or {}).items()
        if "/" in name and amount.isdecimal() and len(amount) < 16
    }


def _texts(table: Mapping[str, str] | None) -> dict[str, str]:
    return {clean(k, 253): clean(v) for k, v in list((table or {}).items())[:CONTAINERS_LIMIT]}


def _containers(
    spec: js.PodSpec, status: js.PodStatus, host_volumes: set[str]
) -> tuple[ContainerRequest, ...]:
    told = [*(status.containerStatuses or ()), *(status.initContainerStatuses or ())]
    by_name = {one.name: one for one in told}
    both = [("init", c) for c in spec.initContainers or ()]
    both += [("app", c) for c in spec.containers or ()]
    return tuple(
        _container(kind, one, by_name.get(one.name), host_volumes)
        for kind, one in both[:CONTAINERS_LIMIT]
    )


def _container(
    kind: str, one: js.Container, status: js.ContainerStatus | None, host_volumes: set[str]
) -> ContainerRequest:
    resources = one.resources or js.Resources()
    mounts = one.volumeMounts or ()
    name, now = _now(status)
    last = status.lastState.terminated if status and status.lastState else None
    known = {v.name: v.value for v in one.env or () if v.name in ENVIRONMENT}
    return ContainerRequest(
        name=clean(one.name),
        kind=kind,
        resources=_amounts(resources.limits),
        requests=_amounts(resources.requests),
        claims=tuple(clean(c.name) for c in resources.claims or ()),
        privileged=bool(one.securityContext and one.securityContext.privileged),
        shm_mounted=any(m.mountPath.rstrip("/") == "/dev/shm" for m in mounts),  # noqa: S108
        host_devices=any(m.name in host_volumes for m in mounts),
        environment={n: clean(v, VALUE_LIMIT) for n, v in known.items() if v is not None},
        container_id=clean((status.containerID or "").rpartition("//")[2]) if status else "",
        state=name,
        reason=clean(now.reason),
        message=clean((now.message or "").replace("\n", " "), 2 * VALUE_LIMIT),
        exit_code=now.exitCode,
        last_message=clean((last.message or "").replace("\n", " "), VALUE_LIMIT) if last else "",
        restarts=status.restartCount if status else 0,
    )


def _amounts(table: Mapping[str, str | int | float] | None) -> dict[str, str]:
    return {clean(k): clean(str(v)) for k, v in (table or {}).items() if "/" in k}


def _now(status: js.ContainerStatus | None) -> tuple[str, js.Ended]:
    state = status.state if status else None
    if state is None:
        return "", js.Ended()
    for name in ("running", "waiting", "terminated"):
        found: js.Ended | None = getattr(state, name)
        if found is not None:
            return name, found
    return "", js.Ended()
