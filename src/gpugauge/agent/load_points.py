"""How loaded the GPUs of this node are, in points: more is more loaded.

    points = (100 x waiting + 10 x sharers) / GPUs

`waiting` is the mean number of processes that waited for their GPU in the last minute, the
load average of a GPU: a wait has at least one thread in it. `sharers` adds up the pods that
are on each device, one for a device that only processes outside pods use. A MIG instance
counts as a GPU, and the GPU it is part of does not. Utilization is left out: it tells whether
a GPU works, and not whether one more process would wait.

An idle node has 0 points, a GPU that is held and unused 10, one whose only process waits all
the time for the work it gave 110, and two such processes on one GPU 220.
"""

from __future__ import annotations

from gpugauge.model.snapshot import Snapshot
from gpugauge.units import NS_PER_SECOND

WAITING_POINTS = 100
SHARER_POINTS = 10
PATIENCE_NS = 10 * NS_PER_SECOND
"""What is unknown for a shorter time is passed over: NVML may stumble."""


class LoadPoints:
    """Points over windows of snapshots that follow each other."""

    def __init__(self, window_seconds: float) -> None:
        """Begin with no window."""
        self._window_ns = int(window_seconds * NS_PER_SECOND)
        self._began: Snapshot | None = None
        self._known_ns: int | None = None
        """When all was known last."""
        self._unseen: dict[int, int] = {}
        """Since when a process that NVML lists has not been traced, by pid."""
        self.points: int | None = None
        """Of the last whole window; None: not known."""

    def observe(self, snapshot: Snapshot) -> None:
        """Take the next snapshot."""
        now_ns = snapshot.time_monotonic_ns
        if not self._is_known(snapshot):
            if self._known_ns is None or now_ns - self._known_ns >= PATIENCE_NS:
                self._began, self.points = None, None
            return
        self._known_ns = now_ns
        if self._began is not None:
            passed_ns = now_ns - self._began.time_monotonic_ns
            if 0 <= passed_ns < self._window_ns:
                return
            if passed_ns > 0:
                self.points = _points(snapshot, _waiting(self._began, snapshot))
        self._began = snapshot

    def _is_known(self, snapshot: Snapshot) -> bool:
        """Return whether every process that can wait is seen.

        Not while probes are off, NVML is silent or lists no GPU, or a process has a context
        and no probe: its waits are not seen, and the node would look emptier than it is.
        """
        now_ns = snapshot.time_monotonic_ns
        unseen = _untraced(snapshot)
        self._unseen = {pid: self._unseen.get(pid, now_ns) for pid in unseen}
        agent = snapshot.agent
        return (
            agent.ready
            and not agent.nvml_error
            and bool(snapshot.devices)
            and not any(switch.off for switch in agent.off_switches)
            # NVML's list is older than the snapshot: who ended is in it for a while.
            and not any(now_ns - since_ns >= PATIENCE_NS for since_ns in self._unseen.values())
        )


def _untraced(snapshot: Snapshot) -> set[int]:
    """Return the processes with a context, by NVML, that are not traced."""
    listed = {
        each.pid
        for device in snapshot.devices
        for each in device.processes or ()
        if each.kind == "compute"
    }
    return listed - {process.pid for process in snapshot.processes}


def _points(snapshot: Snapshot, waiting: float) -> int:
    parents = {device.mig_parent_uuid for device in snapshot.devices}
    gpus = {device.uuid for device in snapshot.devices} - parents
    sharers = sum(
        use.pods or min(1, use.processes_with_context)
        for use in snapshot.device_use
        if use.gpu_uuid in gpus
    )
    return round((WAITING_POINTS * waiting + SHARER_POINTS * sharers) / max(1, len(gpus)))


def _waiting(began: Snapshot, ended: Snapshot) -> float:
    """Return how many processes waited for their GPU between two snapshots, on average."""
    before = {time.owner: time.host_waits_ns for time in began.times}
    # An owner that is new began within the window.
    risen_ns = sum(max(0, t.host_waits_ns - before.get(t.owner, 0)) for t in ended.times)
    waiting = risen_ns / (ended.time_monotonic_ns - began.time_monotonic_ns)
    # Or it is an older one under a new name, whose waits are of before: no more can wait
    # than there are.
    return min(waiting, float(max(len(began.processes), len(ended.processes))))
