"""Findings as Events on their pods: one Event a finding, renewed seldom while it lasts.

What is due is decided beside the tick and costs a look-up a finding. Writing is done by a
thread of its own, at a bounded rate, from a bounded queue: a slow API server delays nothing.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpugauge.agent.pod_event import event, event_name, series
from gpugauge.agent.token_bucket import TokenBucket
from gpugauge.attribution.api_server import sentence_of
from gpugauge.attribution.pod_view import Pod
from gpugauge.errors import GpugaugeError
from gpugauge.model.cluster import PodEvents
from gpugauge.model.finding import Finding, Severity
from gpugauge.model.workload import Scope
from gpugauge.settings import PodEventSettings

LOG = logging.getLogger(__name__)

QUEUE_LIMIT = 64
KEPT_LIMIT = 1_024
"""Findings remembered, those seen last; one that was forgotten finds its Event by its name."""
PATIENCE_SECONDS = 600.0
"""A write that failed is tried again for this long."""
FIRST_BACKOFF_SECONDS = 1.0
LAST_BACKOFF_SECONDS = 60.0
REST_SECONDS = 30.0
"""With nothing to write for so long, the connection is closed."""
STOP_SECONDS = 1.0
CONFLICT, NOT_FOUND = 409, 404
FORBIDDEN = frozenset({401, 403})
LASTING = frozenset({400, 404, 405, 413, 415, 422})
"""Statuses that the same write meets again."""
ORDER = tuple(Severity)

Key = tuple[str, str, str, str]
"""Rule, UID of the pod, container, UUID of the device."""


class Writer(Protocol):
    """What writes Events; each may raise, see attribution.cluster_writer."""

    def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create an Event."""

    def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Change an Event; return it as it is now."""

    def rest(self) -> None:
        """Nothing is written for a while."""

    def interrupt(self) -> None:
        """End what waits."""


@dataclass(slots=True)
class _Kept:
    """One finding. While it is queued the writing thread alone changes it."""

    finding: Finding
    pod: Pod
    queued: bool = False
    queued_at: float = 0.0
    name: str = ""
    """Of its Event; "" before there is one."""
    count: int = 0
    written_at: float = float("-inf")
    """When it was written, or given up, last."""
    seen_unix_ns: int = 0
    """What was said of it last."""


class PodEventWriter:
    """Takes findings from the tick, and writes Events from its own thread."""

    def __init__(
        self,
        settings: PodEventSettings,
        writer: Writer,
        pod_of: Callable[[str], Pod | None],
        node: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        backoff_seconds: float = FIRST_BACKOFF_SECONDS,
    ) -> None:
        """Start the thread.

        Args:
            settings: Which findings, how often, how many.
            writer: Writes.
            pod_of: The present pod of a UID; None where the watch knows none.
            node: The agent's, for `reportingInstance`.
            clock: Seconds; for what is due.
            backoff_seconds: First wait after a write that failed.
        """
        self._settings = settings
        self._writer = writer
        self._pod_of = pod_of
        self._node = node
        self._clock = clock
        self._backoff_seconds = backoff_seconds
        self._bucket = TokenBucket(int(settings.per_minute))
        self._least = ORDER.index(settings.severity)
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._queue: queue.Queue[_Kept | None] = queue.Queue(QUEUE_LIMIT)
        self._writes = dict.fromkeys(("created", "updated", "dropped", "failed"), 0)
        self._error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)
        self._thread.start()

    @property
    def state(self) -> PodEvents:
        """What was written so far."""
        return PodEvents(writes=dict(self._writes), error=self._error)

    def observe(self, findings: Iterable[Finding]) -> None:
        """Take what is open now; never waits."""
        now = self._clock()
        for finding in findings:
            owner = finding.owner
            if owner is None or owner.scope is not Scope.POD or not owner.traced:
                continue
            if ORDER.index(finding.severity) < self._least:
                continue
            key = (finding.rule, owner.pod_uid, owner.container, finding.gpu_uuid)
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                if kept.queued or now - kept.written_at < self._settings.update_seconds:
                    continue
                if finding.seen_unix_ns <= kept.seen_unix_ns:
                    continue  # shown still, and not seen again
            pod = self._pod_of(owner.pod_uid)
            if pod is None:
                continue
            if kept is None:
                kept = self._kept[key] = _Kept(finding, pod)
                while len(self._kept) > KEPT_LIMIT:
                    self._kept.popitem(last=False)
            self._enqueue(kept, finding, pod, now)

    def close(self) -> None:
        """End the thread; what waits is not written."""
        self._stop.set()
        self._writer.interrupt()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            LOG.debug("the queue of Events is full: its thread is awake")
        self._thread.join(STOP_SECONDS)

    def _enqueue(self, kept: _Kept, finding: Finding, pod: Pod, now: float) -> None:
        kept.finding, kept.pod, kept.queued, kept.queued_at = finding, pod, True, now
        try:
            self._queue.put_nowait(kept)
        except queue.Full:
            self._writes["dropped"] += 1
            kept.queued, kept.written_at = False, now

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                kept = self._queue.get(timeout=REST_SECONDS)
            except queue.Empty:
                self._writer.rest()
                continue
            if kept is None:
                break
            try:
                self._send(kept)
            except Exception:  # a fault of ours must not end the thread
                LOG.exception("an Event could not be made")
                self._writes["failed"] += 1
            kept.written_at = self._clock()
            kept.queued = False
        self._writer.rest()

    def _send(self, kept: _Kept) -> None:
        """Write until it is written, given up, or the agent ends."""
        failures = 0
        while not self._stop.wait(self._bucket.wait_seconds()):
            if self._pod_of(kept.pod.uid) is None:  # it ended while this waited
                self._writes["failed"] += 1
                return
            self._bucket.take()
            try:
                self._writes[self._once(kept)] += 1
                self._error = ""
                return
            except Exception as error:  # whatever a server, or what is before it, can cause
                if self._stop.is_set():
                    return
                status = getattr(error, "status", 0)
                self._tell(error)
                late = self._clock() - kept.queued_at > PATIENCE_SECONDS
                if status in LASTING or status in FORBIDDEN or late:
                    self._writes["failed"] += 1
                    if status in FORBIDDEN:  # rights are given by people, seldom
                        self._wait(LAST_BACKOFF_SECONDS)
                    return
                self._wait(min(LAST_BACKOFF_SECONDS, self._backoff_seconds * 2.0**failures))
                failures += 1

    def _once(self, kept: _Kept) -> str:
        """Create the Event or renew it; return the outcome."""
        finding, pod = kept.finding, kept.pod
        name = event_name(finding, pod)
        if kept.name != name:
            kept.name, kept.count = "", 0
        if not kept.name:
            try:
                self._writer.create_event(pod.namespace, event(finding, pod, self._node))
            except GpugaugeError as error:
                if getattr(error, "status", 0) != CONFLICT:
                    raise
                # Of an agent that ran before this one: an empty patch reads it.
                kept.count = _count(self._writer.patch_event(pod.namespace, name, {}))
            else:
                kept.name, kept.count, kept.seen_unix_ns = name, 1, finding.seen_unix_ns
                return "created"
        try:
            count = kept.count + 1
            self._writer.patch_event(pod.namespace, name, series(count, finding.seen_unix_ns))
        except GpugaugeError as error:
            if getattr(error, "status", 0) == NOT_FOUND and kept.name:
                kept.name = ""  # it has expired: make it anew
                return self._once(kept)
            raise
        kept.name, kept.count, kept.seen_unix_ns = name, count, finding.seen_unix_ns
        return "updated"

    def _tell(self, error: Exception) -> None:
        sentence = sentence_of(error)
        if sentence != self._error:
            LOG.warning("an Event of a finding was not written: %s", sentence)
        self._error = sentence

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load


def _count(found: Mapping[str, Any]) -> int:
    """Return how often the server's Event was seen, 1 where it does not say."""
    said = found.get("series")
    count = said.get("count") if isinstance(said, dict) else None
    return count if isinstance(count, int) and 0 < count < 2**31 - 1 else 1
