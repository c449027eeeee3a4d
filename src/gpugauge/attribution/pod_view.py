"""The pods of this node, at one moment: immutable, and small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpugauge.model.workload import UNKNOWN, Owner, Scope


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod, as its status shows it now."""

    name: str
    container_id: str
    """64 hex digits, or "" while it has none."""
    previous_id: str = ""
    """The id it had before its last restart."""
    kind: str = "app"
    """`app`, `init` (sidecars too) or `ephemeral`."""
    running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What is kept of a pod."""

    uid: str
    namespace: str
    name: str
    workload: str
    workload_kind: str
    containers: tuple[Container, ...] = ()
    config_hash: str = ""
    """Of a static pod: what its cgroup is named by, instead of the UID."""
    terminal: bool = False
    """Succeeded or Failed: it holds nothing any more."""
    traced: bool = True
    """False when its own annotation opted out; of its namespace's the view knows."""
    hami_devices: str = ""
    """The annotation in which HAMi notes the real devices, where there is one."""


@dataclass(frozen=True, slots=True)
class PodView:
    """All pods of this node that are known, and those that ended a short while ago."""

    version: int = 0
    """Rises with each change."""
    ready: bool = False
    """The pods were listed at least once."""
    by_container: Mapping[str, tuple[Pod, Container]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By container id, previous ids and ended pods included."""
    by_uid: Mapping[str, Pod] = field(default_factory=lambda: MappingProxyType({}))
    """By UID and, for static pods, by config hash; ended pods included."""
    by_name: Mapping[tuple[str, str], Pod] = field(default_factory=lambda: MappingProxyType({}))
    """Present pods only, by (namespace, name)."""
    ended: frozenset[str] = frozenset()
    """UIDs of pods that are gone."""
    opted_out_namespaces: frozenset[str] = frozenset()

    def owner(self, pod: Pod, container: str, container_id: str = "", reason: str = "") -> Owner:
        """Return the owner that stands for one container of a pod."""
        return Owner(
            scope=Scope.POD,
            namespace=pod.namespace,
            pod=pod.name,
            container=container or UNKNOWN,
            workload=pod.workload,
            workload_kind=pod.workload_kind,
            pod_uid=pod.uid,
            container_id=container_id,
            reason=reason,
            traced=pod.traced and pod.namespace not in self.opted_out_namespaces,
        )
