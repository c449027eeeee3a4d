"""From the API server's JSON to the request path. Fields not named here never become objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from gpugauge.errors import ForeignDataError

Raw = msgspec.Raw
T = TypeVar("T")


class Meta(msgspec.Struct):
    """Of every object."""

    name: str = ""
    namespace: str | None = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    ownerReferences: list[Owner] | None = None


class Owner(msgspec.Struct):
    """An owner reference."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Tolerance(msgspec.Struct):
    """A taint or a toleration."""

    key: str | None = ""
    value: str | None = ""
    effect: str | None = ""
    operator: str | None = "Equal"


class Variable(msgspec.Struct):
    """An environment variable; `valueFrom` is never read."""

    name: str = ""
    value: str | None = None


class Resources(msgspec.Struct):
    """Limits and requests."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None
    claims: list[Named] | None = None


class Named(msgspec.Struct):
    """Anything with a name."""

    name: str = ""
    mountPath: str = ""


class Security(msgspec.Struct):
    """A container's security context."""

    privileged: bool | None = None


class Container(msgspec.Struct):
    """A container of a pod's spec."""

    name: str = ""
    image: str | None = ""
    resources: Resources | None = None
    securityContext: Security | None = None
    env: list[Variable] | None = None
    volumeMounts: list[Named] | None = None


class HostPath(msgspec.Struct):
    """A path of the host."""

    path: str = ""


class Volume(msgspec.Struct):
    """A volume; only host paths are looked at."""

    name: str = ""
    hostPath: HostPath | None = None


class Ended(msgspec.Struct):
    """Waiting, running or terminated."""

    reason: str | None = ""
    message: str | None = ""
    exitCode: int | None = None
    startedAt: str | None = None
    containerID: str | None = ""


class State(msgspec.Struct):
    """One of three."""

    running: Ended | None = None
    waiting: Ended | None = None
    terminated: Ended | None = None


class ContainerStatus(msgspec.Struct):
    """A container's status."""

    name: str = ""
    containerID: str | None = ""
    state: State | None = None
    lastState: State | None = None
    restartCount: int = 0


class Condition(msgspec.Struct):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: str | None = ""
    message: str | None = ""
    lastTransitionTime: str | None = None


class PodClaimJson(msgspec.Struct):
    """A claim in a pod's spec or status."""

    name: str = ""
    resourceClaimName: str | None = None


class PodSpec(msgspec.Struct):
    """A pod's spec."""

    nodeName: str | None = ""
    runtimeClassName: str | None = ""
    tolerations: list[Tolerance] | None = None
    nodeSelector: dict[str, str] | None = None
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    volumes: list[Volume] | None = None
    resourceClaims: list[PodClaimJson] | None = None


class PodStatus(msgspec.Struct):
    """A pod's status."""

    phase: str = ""
    reason: str | None = ""
    message: str | None = ""
    startTime: str | None = None
    conditions: list[Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None
    resourceClaimStatuses: list[PodClaimJson] | None = None


class Pod(msgspec.Struct):
    """A pod."""

    metadata: Meta
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Involved(msgspec.Struct):
    """What an event is about."""

    kind: str | None = ""
    name: str | None = ""
    uid: str | None = ""


class EventJson(msgspec.Struct):
    """An event."""

    involvedObject: Involved | None = None
    reason: str | None = ""
    message: str | None = ""
    type: str | None = ""
    lastTimestamp: str | None = None
    eventTime: str | None = None


class NodeSpec(msgspec.Struct):
    """A node's spec."""

    taints: list[Tolerance] | None = None
    unschedulable: bool | None = None


class NodeInfo(msgspec.Struct):
    """Versions of a node."""

    kubeletVersion: str = ""


class NodeStatus(msgspec.Struct):
    """A node's status."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: list[Condition] | None = None
    nodeInfo: NodeInfo | None = None


class NodeJson(msgspec.Struct):
    """A node."""

    metadata: Meta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class ListMeta(msgspec.Struct, rename={"more": "continue"}):
    """Of a list: where its next page begins."""

    more: str | None = None


class Page(msgspec.Struct):
    """A list: its items stay bytes, so that one of another form spoils no other."""

    items: list[Raw] | None = None
    metadata: ListMeta | None = None


def decode(data: bytes | bytearray | Raw, kind: type[T]) -> T:
    """Return the object that JSON holds.

    Raises:
        ForeignDataError: it does not.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ForeignDataError(f"An answer of the API server is off: {error}.") from None


def items(data: bytes | bytearray) -> tuple[list[Raw], str]:
    """Return the items of a page, undecoded, and where the next one begins ("" for none)."""
    page = decode(data, Page)
    return list(page.items or ()), (page.metadata.more or "") if page.metadata else ""


def unix_ns(text: Any) -> int:
    """Return an RFC 3339 time, 0 for none."""
    if not isinstance(text, str):
        return 0
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0
