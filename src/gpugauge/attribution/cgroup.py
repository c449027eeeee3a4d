"""Which container and pod a cgroup path names.

The path is text that tenants can shape: a container may make cgroups below its
own, with any name. So it is read within bounds, and ids and UIDs are given
outermost first: what comes first was named by the kubelet and the runtime.

The forms come from the kubelet's naming (`pkg/kubelet/cm`: `pod` + UID below
the QoS parent, the systemd driver writes `-` as `_` and repeats the ancestry)
and from what runtimes add: a prefix, `.scope`, and cgroups further down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

FILE_LIMIT_BYTES = 16_384
"""/proc/PID/cgroup has one line per hierarchy, at most a dozen; more is cut."""
PATH_LIMIT = 4_096
IDS_LIMIT = 16
LINES_LIMIT = 64

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# ECS names a container by its task, 32 hex digits, and a number.
_ECS_ID = re.compile(r"[0-9a-f]{32}-[0-9]{1,20}")
_POD = re.compile(r"(?:^|[-_])pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})")
# The monitor process of CRI-O is not in the container.
_MONITOR_PREFIX = "crio-conmon-"
_LXC_PREFIX = "lxc.payload."
_CONTROLLERS = frozenset({"memory", "cpu", "cpuacct", "cpu,cpuacct", "cpuacct,cpu"})


class Qos(StrEnum):
    """Quality of service of a pod, as its cgroup path says it."""

    NONE = ""
    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "besteffort"


@dataclass(frozen=True, slots=True)
class CgroupIdentity:
    """What a cgroup path says of the process in it."""

    path: str
    container_ids: tuple[str, ...] = ()
    """Outermost first."""
    pod_uids: tuple[str, ...] = ()
    """Outermost first, with dashes; 32 hex digits without are the config hash of a static pod."""
    qos: Qos = Qos.NONE
    in_pod: bool = False
    """The path lies below the kubelet's `kubepods`."""
    relative: bool = False
    """Seen from another cgroup namespace (`/../..`), or the very root."""

    @property
    def container_id(self) -> str:
        """The innermost container id, or ""."""
        return self.container_ids[-1] if self.container_ids else ""

    @property
    def pod_uid(self) -> str:
        """The innermost pod UID, or ""."""
        return self.pod_uids[-1] if self.pod_uids else ""

    @property
    def is_host(self) -> bool:
        """No container is named: a process of the host, as far as the path tells."""
        return not (self.in_pod or self.container_ids or self.pod_uids)

    @property
    def unparsed(self) -> bool:
        """It lies below `kubepods`, but names neither a container nor a pod."""
        return self.in_pod and not (self.container_ids or self.pod_uids)


def parse_path(path: str) -> CgroupIdentity:
    """Return what one cgroup path names. Any text is accepted; what is not known stays empty."""
    components = [part for part in path[:PATH_LIMIT].split("/") if part]
    ids: list[str] = []
    uids: list[str] = []
    qos = Qos.NONE
    in_pod = False
    ids_before = 0
    for number, component in enumerate(components):
        if "kubepods" in component:
            in_pod, qos, ids_before = True, Qos.GUARANTEED, len(ids)
        if in_pod and len(ids) == ids_before:
            qos = _qos(component) or qos
        uid = _pod_uid(component)
        container_id = _container_id(component) or _lxc_name(components[number : number + 2])
        if uid:
            uids.append(uid)
        if container_id:
            ids.append(container_id)
    return CgroupIdentity(
        path=path[:PATH_LIMIT],
        container_ids=_bounded(ids),
        pod_uids=_bounded(uids),
        qos=qos,
        in_pod=in_pod,
        relative=not components or components[0] == "..",
    )


def parse_file(data: bytes) -> CgroupIdentity:
    """Return what a /proc/PID/cgroup file says.

    Each line is `number:controllers:path`. On hybrid hosts the v2 line may name
    the runtime's own service, so a line below `kubepods` is preferred, then one
    that names a container, then cpu and memory, then v2 (`0::`).
    """
    best = CgroupIdentity(path="")
    best_rank = -1
    for line in data[:FILE_LIMIT_BYTES].decode("utf-8", "replace").split("\n")[:LINES_LIMIT]:
        number, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if not (separator and number.isdigit() and path.startswith("/")):
            continue
        identity = parse_path(path)
        rank = (
            8 * identity.in_pod
            + 4 * bool(identity.container_ids)
            + 2 * (controllers in _CONTROLLERS)
            + (number == "0")
        )
        if rank > best_rank:
            best, best_rank = identity, rank
    return best


def controller_paths(data: bytes) -> dict[str, str]:
    """Return the path of each v1 controller, and of v2 under "", from a /proc/PID/cgroup file."""
    paths: dict[str, str] = {}
    for line in data[:FILE_LIMIT_BYTES].decode("utf-8", "replace").split("\n")[:LINES_LIMIT]:
        number, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator and number.isdigit() and path.startswith("/"):
            for controller in controllers.split(","):
                paths.setdefault(controller, path[:PATH_LIMIT])
    return paths


@lru_cache(4096)
def container_levels(path: str) -> tuple[str, ...]:
    """Return the cgroup of the container in a path, then that of its pod; what there is of them.

    A process may sit further down, in a cgroup that its container made.
    """
    components = [part for part in path[:PATH_LIMIT].split("/") if part]
    if ".." in components:
        return ()
    pod = max((n for n, part in enumerate(components) if _pod_uid(part)), default=-1)
    ids = [n for n, part in enumerate(components) if n > pod and _container_id(part)]
    chosen = ([ids[0] if pod >= 0 else ids[-1]] if ids else []) + ([pod] if pod >= 0 else [])
    return tuple("/" + "/".join(components[: n + 1]) for n in chosen)


def _bounded(found: list[str]) -> tuple[str, ...]:
    # The outermost are the ones that tenants cannot choose, the innermost the finest.
    return tuple(found if len(found) <= IDS_LIMIT else found[: IDS_LIMIT - 1] + found[-1:])


def _qos(component: str) -> Qos:
    if "burstable" in component:
        return Qos.BURSTABLE
    return Qos.BEST_EFFORT if "besteffort" in component else Qos.NONE


def _container_id(component: str) -> str:
    found = ""
    for token in component.removesuffix(".scope").split(":"):
        match = None if token.startswith(_MONITOR_PREFIX) else _ID.search(token)
        if match:
            found = match.group()
        elif _ECS_ID.fullmatch(token):
            found = token
    return found


def _lxc_name(components: list[str]) -> str:
    if components[0].startswith(_LXC_PREFIX):
        return components[0].removeprefix(_LXC_PREFIX)[:64]
    return components[1][:64] if components[0] == "lxc" and len(components) > 1 else ""


def _pod_uid(component: str) -> str:
    uid = ""
    for match in _POD.finditer(component):
        uid = match.group(1).replace("_", "-")
    return uid
