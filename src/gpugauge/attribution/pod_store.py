"""The pods of this node, kept up to date by a watch, and given out as immutable views."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType

from gpugauge.attribution.pod_view import Container, Pod, PodView

KEEP_ENDED_SECONDS = 600.0
"""Late events of a pod that ended still find it this long."""
PODS_LIMIT = 2_048
"""Far above the kubelet's limit (110 by default); more are refused and counted."""
ENDED_LIMIT = 4_096
PREVIOUS_IDS = 3
"""Previous ids kept of one container."""


@dataclass(slots=True)
class _Kept:
    pod: Pod
    # Ids its containers had before: id -> container, oldest first.
    previous: OrderedDict[str, Container] = field(default_factory=OrderedDict)


class PodStore:
    """Takes lists and events from a watching thread, gives views to any other."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._present: dict[str, _Kept] = {}
        self._ended: OrderedDict[str, tuple[_Kept, float]] = OrderedDict()
        self._opted_out: frozenset[str] = frozenset()
        self._version = 0
        self._ready = False
        self._view = PodView()
        self.refused = 0
        """Pods left out because there were more than `PODS_LIMIT`."""

    @property
    def version(self) -> int:
        """The number of the last change."""
        return self._version

    def replace(self, pods: Iterable[Pod]) -> None:
        """Take a whole list: pods that are not in it have ended."""
        with self._lock:
            listed = {pod.uid: pod for pod in pods}
            for uid in self._present.keys() - listed.keys():
                self._end(uid)
            for pod in listed.values():
                self._put(pod)
            if not self._ready:
                self._ready = True
                self._version += 1

    def put(self, pod: Pod) -> None:
        """Take a pod that was added or changed."""
        with self._lock:
            self._put(pod)

    def remove(self, uid: str) -> None:
        """Take that a pod is gone."""
        with self._lock:
            self._end(uid)

    def opt_out(self, namespaces: frozenset[str]) -> None:
        """Take the namespaces whose pods are not to be traced."""
        with self._lock:
            if namespaces != self._opted_out:
                self._opted_out = namespaces
                self._version += 1

    def view(self) -> PodView:
        """Return what is known now; the same object until something changes."""
        with self._lock:
            self._expire()
            if self._view.version != self._version:
                self._view = self._build()
            return self._view

    def _put(self, pod: Pod) -> None:
        kept = self._present.get(pod.uid)
        if kept is None:
            ended = self._ended.pop(pod.uid, None)
            if ended is None and len(self._present) >= PODS_LIMIT:
                self.refused += 1
                return
            kept = ended[0] if ended else _Kept(pod)
            self._present[pod.uid] = kept
        elif kept.pod == pod:
            return
        self._note_previous(kept, pod)
        kept.pod = pod
        self._version += 1

    @staticmethod
    def _note_previous(kept: _Kept, pod: Pod) -> None:
        now = {container.container_id for container in pod.containers}
        olds = [(c.container_id, c) for c in kept.pod.containers]
        olds += [(c.previous_id, c) for c in pod.containers]
        for container_id, container in olds:
            if container_id and container_id not in now:
                kept.previous[container_id] = container
        limit = PREVIOUS_IDS * max(1, len(pod.containers))
        while len(kept.previous) > limit:
            kept.previous.popitem(last=False)

    def _end(self, uid: str) -> None:
        kept = self._present.pop(uid, None)
        if kept is None:
            return
        self._ended[uid] = (kept, self._clock() + KEEP_ENDED_SECONDS)
        while len(self._ended) > ENDED_LIMIT:
            self._ended.popitem(last=False)
        self._version += 1

    def _expire(self) -> None:
        now = self._clock()
        while self._ended:
            uid, (_, until) = next(iter(self._ended.items()))
            if until > now:
                return
            del self._ended[uid]
            self._version += 1

    def _build(self) -> PodView:
        by_container: dict[str, tuple[Pod, Container]] = {}
        by_uid: dict[str, Pod] = {}
        ended = [kept for kept, _ in self._ended.values()]
        # Present pods last: where two claim one key, the present one has it.
        for kept in (*ended, *self._present.values()):
            pod = kept.pod
            if pod.config_hash:
                by_uid[pod.config_hash] = pod
            by_uid[pod.uid] = pod
            for container_id, container in kept.previous.items():
                by_container[container_id] = (pod, container)
            for container in pod.containers:
                if container.container_id:
                    by_container[container.container_id] = (pod, container)
        by_name: dict[tuple[str, str], Pod] = {}
        for kept in self._present.values():
            by_name[kept.pod.namespace, kept.pod.name] = kept.pod
        return PodView(
            version=self._version,
            ready=self._ready,
            by_container=MappingProxyType(by_container),
            by_uid=MappingProxyType(by_uid),
            by_name=MappingProxyType(by_name),
            ended=frozenset(self._ended),
            opted_out_namespaces=self._opted_out,
        )
