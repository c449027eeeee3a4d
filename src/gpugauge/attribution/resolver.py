"""From a process to its owner.

What /proc says comes first, the cgroup id that the BPF side noted second: the
process may be gone, and on hybrid hosts the cgroup2 path may name the runtime
instead of the container. An owner that is not final is looked up again when the
view of the pods moves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpugauge.attribution.cgroup import CgroupIdentity, parse_path
from gpugauge.attribution.cgroup_tree import CgroupTree
from gpugauge.attribution.pod_view import Pod, PodView
from gpugauge.attribution.process_cgroup import process_cgroup
from gpugauge.model.workload import HOST, UNKNOWN, Owner, Scope

SHORT_ID = 12

WAITING = "the pods of this node are not listed yet"
NOT_LISTED = "no pod of this node has this container"
NO_KUBERNETES = "pods are not watched"
NO_CONTAINER = "the pod is known, which of its containers is not"
UNPARSED = "its cgroup path below kubepods could not be read"
GONE = "it ended before its cgroup was read"

RECHECK_SECONDS = 10.0
"""A runtime moves a process into its container after it started: look once more."""
GONE_RECHECK_SECONDS = 1.0
KEEP_SECONDS = 120.0
"""An answer that nobody asked for this long is dropped."""
CACHE_LIMIT = 16_384


@dataclass(slots=True)
class _Answer:
    owner: Owner
    identity: CgroupIdentity | None
    paths: tuple[tuple[str, str], ...]
    view_version: int
    looked_at: float
    asked_at: float
    first_at: float


class Resolver:
    """Answers whose a process is. Not for use by several threads at once."""

    def __init__(
        self,
        view: Callable[[], PodView],
        tree: CgroupTree,
        *,
        kubernetes: bool = True,
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take where the pods are seen, the cgroup tree, and where procfs is."""
        self._view = view
        self._tree = tree
        self._kubernetes = kubernetes
        self._proc = proc
        self._clock = clock
        self._answers: dict[tuple[int, int], _Answer] = {}
        self._pruned_at = clock()

    def owner(self, pid: int, start_time: int = 0, cgroup_id: int = 0) -> Owner:
        """Return whose process `pid` is.

        Args:
            pid: In the agent's pid namespace.
            start_time: Clock ticks since boot (field 22 of stat); 0 where not known.
            cgroup_id: As BPF noted it; 0 where not known.
        """
        now = self._clock()
        self._prune(now)
        view = self._view()
        key = (pid, start_time or cgroup_id)
        answer = self._answers.get(key)
        if answer is None or self._is_to_be_read_again(answer, start_time, now):
            answer = self._read(pid, start_time, cgroup_id, before=answer)
            self._answers[key] = answer
        elif answer.view_version != view.version and answer.identity is not None:
            answer.owner = self.owner_of(answer.identity, view)
            answer.view_version = view.version
        answer.asked_at = now
        return answer.owner

    def owner_by_cgroup(self, cgroup_id: int) -> Owner:
        """Return whose a cgroup is, by its id alone."""
        path = self._tree.path(cgroup_id)
        if path is None:
            return Owner(Scope.UNKNOWN, namespace=UNKNOWN, pod=UNKNOWN, reason=GONE)
        return self.owner_of(parse_path(path), self._view())

    def paths(self) -> Mapping[Owner, tuple[tuple[str, str], ...]]:
        """Return (controller, cgroup path) of each owner that a live answer names."""
        return {a.owner: a.paths for a in self._answers.values() if a.paths}

    def unresolved(self) -> dict[str, int]:
        """Count the processes asked for of late whose pod is not known, by reason."""
        return dict(Counter(a.owner.reason for a in self._answers.values() if _open(a.owner)))

    def oldest_unlisted_seconds(self) -> float:
        """How long a container in a pod has been waiting for the pods' list to name it."""
        now = self._clock()
        ages = [now - a.first_at for a in self._answers.values() if a.owner.reason == NOT_LISTED]
        return max(ages, default=0.0)

    def owner_of(self, identity: CgroupIdentity, view: PodView) -> Owner:
        """Return whose a cgroup is.

        The outermost pod UID or container id that a pod of this node has wins: what
        comes first in the path was named by the kubelet, while a container can make
        cgroups below its own and give them the ids of its neighbours.
        """
        pod = next((view.by_uid[uid] for uid in identity.pod_uids if uid in view.by_uid), None)
        known = [view.by_container[i] for i in identity.container_ids if i in view.by_container]
        if pod is None and known:
            pod = known[0][0]
        if pod is not None:
            return self._owner_in_pod(identity, view, pod)
        if identity.unparsed:
            return Owner(Scope.UNKNOWN, namespace=UNKNOWN, pod=UNKNOWN, reason=UNPARSED)
        if identity.in_pod or identity.pod_uids:
            return self._owner_in_unknown_pod(identity, view)
        if identity.container_id:
            container_id = identity.container_id
            return Owner(
                Scope.CONTAINER, container=container_id[:SHORT_ID], container_id=container_id
            )
        return HOST

    def _owner_in_pod(self, identity: CgroupIdentity, view: PodView, pod: Pod) -> Owner:
        for container_id in reversed(identity.container_ids):
            found = view.by_container.get(container_id)
            if found is not None and found[0].uid == pod.uid:
                return view.owner(pod, found[1].name, container_id)
        if len(pod.containers) == 1 and identity.container_ids:
            # Its status has no id yet, or an older one: there is only one it can be.
            return view.owner(pod, pod.containers[0].name, identity.container_ids[0])
        return view.owner(pod, UNKNOWN, identity.container_id, NO_CONTAINER)

    def _owner_in_unknown_pod(self, identity: CgroupIdentity, view: PodView) -> Owner:
        reason = NOT_LISTED if view.ready else WAITING if self._kubernetes else NO_KUBERNETES
        container_id = identity.container_id
        return Owner(
            Scope.CONTAINER if container_id else Scope.UNKNOWN,
            namespace=UNKNOWN,
            pod=UNKNOWN,
            container=container_id[:SHORT_ID] or UNKNOWN,
            workload=UNKNOWN,
            workload_kind=UNKNOWN,
            pod_uid=identity.pod_uid,
            container_id=container_id,
            reason=reason,
            pending=self._kubernetes,
        )

    @staticmethod
    def _is_to_be_read_again(answer: _Answer, start_time: int, now: float) -> bool:
        age = now - answer.looked_at
        if answer.identity is None:
            return age >= GONE_RECHECK_SECONDS
        if not start_time:
            return age >= RECHECK_SECONDS  # the pid may be another process's by now
        young = answer.looked_at - answer.first_at < RECHECK_SECONDS
        return answer.identity.is_host and young and age >= RECHECK_SECONDS

    def _read(
        self, pid: int, start_time: int, cgroup_id: int, *, before: _Answer | None
    ) -> _Answer:
        view, now = self._view(), self._clock()
        first = before.first_at if before else now
        identity, paths = self._look(pid, start_time, cgroup_id)
        if identity is None and before is not None:
            identity, paths = before.identity, before.paths
        if identity is None:
            gone = Owner(Scope.UNKNOWN, namespace=UNKNOWN, pod=UNKNOWN, reason=GONE)
            return _Answer(gone, None, (), view.version, now, now, first)
        owner = self.owner_of(identity, view)
        return _Answer(owner, identity, paths, view.version, now, now, first)

    def _look(
        self, pid: int, start_time: int, cgroup_id: int
    ) -> tuple[CgroupIdentity | None, tuple[tuple[str, str], ...]]:
        read = process_cgroup(pid, start_time, proc=self._proc)
        identity, paths = (read.identity, read.paths) if read else (None, ())
        path = self._tree.path(cgroup_id) if cgroup_id else None
        if path is None:
            return identity, paths
        noted = parse_path(path)
        if identity is None:
            return noted, (("", path),)
        # Elsewhere than BPF noted: the pid was used again, or the path is relative to another
        # cgroup namespace. Where both agree, v1 paths say more on hybrid hosts.
        elsewhere = identity.is_host or dict(paths).get("", path) != path
        return (noted, (("", path),)) if elsewhere and not noted.is_host else (identity, paths)

    def _prune(self, now: float) -> None:
        if now - self._pruned_at < KEEP_SECONDS / 4 and len(self._answers) < CACHE_LIMIT:
            return
        self._pruned_at = now
        self._answers = {
            key: answer
            for key, answer in self._answers.items()
            if now - answer.asked_at < KEEP_SECONDS
        }
        while len(self._answers) >= CACHE_LIMIT:
            del self._answers[next(iter(self._answers))]


def _open(owner: Owner) -> bool:
    return bool(owner.reason) and (owner.scope is not Scope.POD or owner.container == UNKNOWN)
