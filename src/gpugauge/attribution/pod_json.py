"""From the JSON of a pod to the little that is kept of it.

Decoding goes straight into the fields named here; all others, managed fields
and environments among them, are skipped without becoming objects. msgspec comes
with lightkube, so this module is imported only where that is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpugauge.attribution.names import clean
from gpugauge.attribution.pod_view import Container, Pod
from gpugauge.attribution.workload import workload_of
from gpugauge.errors import ForeignDataError

TRACE_ANNOTATION = "gpugauge.io/trace"
"""`"off"` on a pod or a namespace: its calls are not counted."""
_CONFIG_HASH = "kubernetes.io/config.hash"
_HAMI = ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate")
_HAMI_LIMIT = 4_096
CONTAINERS_LIMIT = 128


class _OwnerReference(msgspec.Struct):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str | None = ""
    uid: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[_OwnerReference] | None = None


class _Ended(msgspec.Struct):
    containerID: str = ""


class _State(msgspec.Struct):
    running: dict[str, msgspec.Raw] | None = None
    terminated: _Ended | None = None


class _ContainerStatus(msgspec.Struct):
    name: str = ""
    containerID: str | None = ""
    state: _State | None = None
    lastState: _State | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    containerStatuses: list[_ContainerStatus] | None = None
    initContainerStatuses: list[_ContainerStatus] | None = None
    ephemeralContainerStatuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


class _Namespace(msgspec.Struct):
    metadata: _Meta


_pod_decoder = msgspec.json.Decoder(_Pod)
_namespace_decoder = msgspec.json.Decoder(_Namespace)


def decode_pod(data: bytes | msgspec.Raw) -> Pod:
    """Return what is kept of a pod.

    Raises:
        ForeignDataError: It is not JSON, or not a pod with a UID, name and namespace.
    """
    try:
        raw = _pod_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForeignDataError(f"A pod could not be read: {error}.") from None
    meta, status = raw.metadata, raw.status or _Status()
    uid, name, namespace = clean(meta.uid), clean(meta.name, 253), clean(meta.namespace)
    if not (uid and name and namespace):
        raise ForeignDataError("A pod without a UID, name or namespace was sent.")
    annotations = meta.annotations or {}
    owner = next((o for o in meta.ownerReferences or () if o.controller), _OwnerReference())
    workload, kind = workload_of(name, meta.labels or {}, owner.kind, owner.name)
    return Pod(
        uid=uid,
        namespace=namespace,
        name=name,
        workload=workload,
        workload_kind=kind,
        containers=_containers(status),
        config_hash=clean(annotations.get(_CONFIG_HASH, "")),
        terminal=status.phase in {"Succeeded", "Failed"},
        traced=annotations.get(TRACE_ANNOTATION, "").strip().lower() != "off",
        hami_devices=next((annotations[k][:_HAMI_LIMIT] for k in _HAMI if k in annotations), ""),
    )


def decode_namespace(data: bytes | msgspec.Raw) -> tuple[str, bool]:
    """Return (name, opted out) of a namespace.

    Raises:
        ForeignDataError: It is not JSON, or not a namespace with a name.
    """
    try:
        meta = _namespace_decoder.decode(data).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForeignDataError(f"A namespace could not be read: {error}.") from None
    if not meta.name:
        raise ForeignDataError("A namespace without a name was sent.")
    trace = (meta.annotations or {}).get(TRACE_ANNOTATION, "")
    return clean(meta.name), trace.strip().lower() == "off"


def _containers(status: _Status) -> tuple[Container, ...]:
    groups: Sequence[tuple[str, list[_ContainerStatus] | None]] = (
        ("app", status.containerStatuses),
        ("init", status.initContainerStatuses),
        ("ephemeral", status.ephemeralContainerStatuses),
    )
    found = [_container(kind, one) for kind, group in groups for one in group or ()]
    return tuple(found[:CONTAINERS_LIMIT])


def _container(kind: str, status: _ContainerStatus) -> Container:
    state, last = status.state or _State(), status.lastState or _State()
    ended = state.terminated.containerID if state.terminated else ""
    previous = last.terminated.containerID if last.terminated else ""
    return Container(
        name=clean(status.name),
        container_id=_bare_id(status.containerID or ended),
        previous_id=_bare_id(previous),
        kind=kind,
        running=state.running is not None,
    )


def _bare_id(text: str) -> str:
    # `containerd://HEX`: the part after the scheme is what cgroup paths hold.
    return clean(text.rpartition("//")[2])
