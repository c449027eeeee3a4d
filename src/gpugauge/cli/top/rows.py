"""The rows of `top`: rates of two readings of one agent, and what is known of now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpugauge.model.abi import Slot
from gpugauge.model.finding import Finding, Severity
from gpugauge.model.process import HOST_FAMILIES
from gpugauge.model.snapshot import OwnerTime, Series, Snapshot
from gpugauge.model.workload import UNKNOWN, Owner
from gpugauge.remote.reading import Reading
from gpugauge.units import NS_PER_SECOND

SEVERITIES = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One container on one GPU. None: not known."""

    node: str
    owner: Owner
    gpu_uuid: str
    gpu: str
    """Index of the GPU, with the profile of a MIG instance; "" where NVML does not list it."""
    launches_per_second: float | None
    """Alone and inside CUDA graphs."""
    launches_at_least: bool
    """Graphs of unknown content were launched: there were more."""
    host_waits_ratio: float | None
    """Part of the owner's process time in which a thread waited for the GPU, on all its GPUs."""
    known_idle_ratio: float | None
    """Part of the time in which the owner's processes are known to have given this GPU nothing."""
    to_gpu_bytes_per_second: float | None
    to_host_bytes_per_second: float | None
    memory_held_bytes: int | None
    memory_requested_bytes: int | None
    sharers: int | None
    """Pods, containers and the host, as far as a live process of theirs is on this GPU."""
    findings: tuple[Finding, ...] = field(default=())
    findings_known: bool = True


def interval_ns(before: Snapshot | None, now: Snapshot) -> int | None:
    """Return the time between two snapshots of one run of an agent; None where there is none.

    A restarted agent begins its counters and its ticks anew.
    """
    if before is None or before.agent.started_ns != now.agent.started_ns:
        return None
    passed = now.time_monotonic_ns - before.time_monotonic_ns
    return passed if now.number > before.number and passed > 0 else None


def rows(before: Reading | None, now: Reading, *, ended: bool = False) -> list[Row]:
    """Return the rows of one node.

    Args:
        before: An earlier reading of the same agent.
        now: The reading that is shown.
        ended: Also owners without a live process.
    """
    was, snapshot = (before.snapshot if before else None), now.snapshot
    passed_ns = interval_ns(was, snapshot)
    if passed_ns is None:
        was = None
    old = {(s.owner, s.gpu_uuid): s for s in was.series} if was else {}
    old_times = {t.owner: t for t in was.times} if was else {}
    times = {t.owner: t for t in snapshot.times}
    names = {d.uuid: gpu_name(d.index, d.mig_profile) for d in snapshot.devices}
    sharers = _sharers(snapshot.series)
    found = now.findings
    return [
        _row(
            snapshot.node,
            one,
            old.get((one.owner, one.gpu_uuid)),
            (old_times.get(one.owner), times.get(one.owner)),
            passed_ns or 0,
            gpu=names.get(one.gpu_uuid, ""),
            sharers=None if one.gpu_uuid == UNKNOWN else sharers.get(one.gpu_uuid, 0),
            findings=None if found is None else tuple(_of(found, one)),
        )
        for one in snapshot.series
        if ended or one.processes
    ]


def _row(
    node: str,
    now: Series,
    was: Series | None,
    times: tuple[OwnerTime | None, OwnerTime | None],
    passed_ns: int,
    *,
    gpu: str,
    sharers: int | None,
    findings: tuple[Finding, ...] | None,
) -> Row:
    seconds = passed_ns / NS_PER_SECOND

    def rate(before: int | None, after: int) -> float | None:
        if before is None or after < before or not seconds:
            return None
        return (after - before) / seconds

    launches = rate(_launches(was) if was else None, _launches(now))
    unknown = rate(was.graph_launches_unknown if was else None, now.graph_launches_unknown)
    memory = now.memory
    return Row(
        node=node,
        owner=now.owner,
        gpu_uuid=now.gpu_uuid,
        gpu=gpu,
        launches_per_second=launches,
        launches_at_least=bool(launches is not None and unknown),
        host_waits_ratio=_waits(*times),
        known_idle_ratio=_idle(was, now, passed_ns),
        to_gpu_bytes_per_second=rate(
            _bytes(was, Slot.COPY_HTOD) if was else None, _bytes(now, Slot.COPY_HTOD)
        ),
        to_host_bytes_per_second=rate(
            _bytes(was, Slot.COPY_DTOH) if was else None, _bytes(now, Slot.COPY_DTOH)
        ),
        memory_held_bytes=now.memory_held_bytes,
        memory_requested_bytes=None
        if memory is None
        else sum(m.requested_bytes for f, m in memory.items() if f not in HOST_FAMILIES),
        sharers=sharers,
        findings=findings or (),
        findings_known=findings is not None,
    )


def _launches(series: Series) -> int:
    launch = series.operations.get(Slot.LAUNCH)
    return (launch.calls if launch else 0) + series.graph_launch_nodes


def _bytes(series: Series, slot: Slot) -> int:
    operation = series.operations.get(slot)
    return operation.bytes if operation else 0


def _waits(was: OwnerTime | None, now: OwnerTime | None) -> float | None:
    if was is None or now is None:
        return None
    observed, waits = now.observed_ns - was.observed_ns, now.host_waits_ns - was.host_waits_ns
    return min(1.0, waits / observed) if observed > 0 and waits >= 0 else None


def _idle(was: Series | None, now: Series, passed_ns: int) -> float | None:
    """Return the part of process time that is known idle: a lower bound stays one."""
    if was is None or was.known_idle_ns is None or now.known_idle_ns is None or not passed_ns:
        return None
    idle = now.known_idle_ns - was.known_idle_ns
    processes = max(was.processes, now.processes)
    return min(1.0, idle / (passed_ns * processes)) if idle >= 0 and processes else None


def gpu_name(index: int, mig_profile: str) -> str:
    """Return how a GPU is called in a table: `0`, `0:1g.10gb`."""
    return f"{index}:{mig_profile}" if mig_profile else str(index)


def _sharers(series: Iterable[Series]) -> dict[str, int]:
    owners: dict[str, set[tuple[str, ...]]] = {}
    for one in series:
        if one.processes:
            whose = one.owner
            container = "" if whose.pod else whose.container_id
            name = (whose.scope.value, whose.namespace, whose.pod, container)
            owners.setdefault(one.gpu_uuid, set()).add(name)
    return {uuid: len(names) for uuid, names in owners.items()}


def _of(findings: Iterable[Finding], series: Series) -> list[Finding]:
    whose = series.owner
    mine = [
        f
        for f in findings
        if f.owner is not None
        and f.owner.scope == whose.scope
        and (f.owner.namespace, f.owner.pod) == (whose.namespace, whose.pod)
        and f.owner.container in ("", whose.container)
        and f.gpu_uuid in ("", series.gpu_uuid)
    ]
    return sorted(mine, key=lambda f: SEVERITIES.index(f.severity))
