"""Builders of snapshots: each takes what a test cares about and fills in the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpugauge import __version__
from gpugauge.model.abi import Cause, Family, Slot
from gpugauge.model.cluster import LoadScore, OffSwitch, PodEvents
from gpugauge.model.device import Device, DeviceProcess
from gpugauge.model.process import (
    Histogram,
    Memory,
    OpenCall,
    Operation,
    Process,
    ProcessDevice,
)
from gpugauge.model.snapshot import (
    SNAPSHOT_VERSION,
    AgentHealth,
    DeviceUse,
    Entitlement,
    EntitlementGap,
    GapKind,
    HostContext,
    OwnerTime,
    Series,
    Snapshot,
)
from gpugauge.model.workload import HOST, Owner, Scope

GPU_A = "GPU-11111111-2222-3333-4444-555555555555"
GPU_B = "GPU-99999999-8888-7777-6666-555555555555"
SECOND = 1_000_000_000


def owner(name: str = "train-0", namespace: str = "ml", **given: Any) -> Owner:
    """Return a pod's owner."""
    values: dict[str, Any] = {
        "scope": Scope.POD,
        "namespace": namespace,
        "pod": name,
        "container": "main",
        "workload": name.rsplit("-", 1)[0],
        "workload_kind": "StatefulSet",
        "pod_uid": f"uid-{name}",
        "container_id": (name.encode().hex() + "0" * 64)[:64],
    }
    return Owner(**(values | given))


def device(uuid: str = GPU_A, **given: Any) -> Device:
    """Return a GPU."""
    values: dict[str, Any] = {
        "uuid": uuid,
        "index": 0 if uuid == GPU_A else 1,
        "model": "NVIDIA H200",
        "pci_bus_id": "00000000:01:00.0" if uuid == GPU_A else "00000000:02:00.0",
        "memory_total_bytes": 143_771_000_000,
        "memory_used_bytes": 2_097_152_003,
        "memory_reserved_bytes": 617_000_003,
        "utilization_ratio": 0.37,
        "compute_mode": "default",
        "processes": (DeviceProcess(pid=4211, memory_held_bytes=536_870_923),),
    }
    return Device(**(values | given))


def operations(**calls: int) -> dict[Slot, Operation]:
    """Return operations by slot name: `operations(LAUNCH=23)`."""
    return {
        Slot[name]: Operation(calls=count, bytes=count * 4099, duration_ns=count * 5003)
        for name, count in calls.items()
    }


def histogram(*counts: int, sum_ns: int = 0) -> Histogram:
    """Return a histogram, filled with zeros to its 14 buckets."""
    return Histogram(counts=counts + (0,) * (14 - len(counts)), sum_ns=sum_ns)


def series(of: Owner = HOST, gpu_uuid: str = GPU_A, **given: Any) -> Series:
    """Return totals of an owner on a device; zero where nothing is given."""
    values: dict[str, Any] = {
        "owner": of,
        "gpu_uuid": gpu_uuid,
        "operations": {},
        "blocked_ns": {},
        "histograms": {},
        "errors": {},
        "known_idle_ns": None,
        "graph_launch_nodes": 0,
        "graph_launches_unknown": 0,
        "launch_threads": 0,
        "issue_ns": None,
        "open_calls": {},
        "memory": None,
        "memory_held_bytes": None,
        "contexts": 0,
        "processes": 1,
        "active_processes": 1,
    }
    return Series(**(values | given))


def busy_series(of: Owner, gpu_uuid: str = GPU_A, factor: int = 1) -> Series:
    """Return totals in which everything is known and nothing is zero."""
    return series(
        of,
        gpu_uuid,
        operations={
            slot: Operation(
                calls=(101 + slot) * factor,
                errors=factor if slot == Slot.ALLOCATE else 0,
                bytes=(4099 + slot) * factor,
                duration_ns=(7001 + slot) * factor,
            )
            for slot in Slot
        },
        blocked_ns={cause: (1_000_003 + cause) * factor for cause in Cause},
        histograms={
            Cause.SYNCHRONIZE: histogram(2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43,
                                         sum_ns=47 * SECOND * factor),
            Cause.COPY: histogram(0, 0, 53, sum_ns=59_000_000 * factor),
        },
        errors={(Slot.ALLOCATE, 2): factor, (Slot.LAUNCH, -1): 3 * factor},
        known_idle_ns=61 * SECOND * factor,
        graph_launch_nodes=67 * factor,
        graph_launches_unknown=71 * factor,
        launch_threads=73_000 * factor,
        issue_ns=4_100,
        open_calls={
            Cause.SYNCHRONIZE: OpenCall(
                calls=2,
                blocked_ns=79 * SECOND,
                oldest_ns=53 * SECOND,
                oldest_symbol="cuStreamSynchronize",
            )
        },
        memory={
            Family.DEVICE: Memory(
                requested_bytes=83_000_003 * factor,
                peak_bytes=89_000_003 * factor,
                allocations=97 * factor,
                frees=89 * factor,
                failures=factor,
            ),
            Family.HOST: Memory(requested_bytes=4_194_307, peak_bytes=4_194_307, allocations=1),
        },
        memory_held_bytes=536_870_923 * factor,
        contexts=2,
        processes=3,
        active_processes=2,
    )  # fmt: skip


def times(of: Owner, observed_ns: int = 103 * SECOND) -> OwnerTime:
    """Return a time split that sums to the time observed."""
    host, gpu, overlapped = observed_ns // 2, observed_ns // 5, observed_ns // 7
    return OwnerTime(
        owner=of,
        observed_ns=observed_ns,
        host_waits_ns=host,
        gpu_waits_ns=gpu,
        overlapped_ns=overlapped,
        unobserved_ns=observed_ns - host - gpu - overlapped,
    )


def process(of: Owner, number: int = 1, **given: Any) -> Process:
    """Return a live process with one device."""
    one = ProcessDevice(
        gpu_uuid=GPU_A,
        operations=operations(LAUNCH=23, SYNCHRONIZE=7),
        blocked_ns={Cause.SYNCHRONIZE: 1_900_003},
        histograms={Cause.SYNCHRONIZE: histogram(0, 7, sum_ns=1_900_003)},
        errors={},
        open_calls={},
        contexts=1,
        active=True,
    )
    values: dict[str, Any] = {
        "number": number,
        "pid": 4200 + number,
        "comm": "python3",
        "owner": of,
        "cgroup_id": 7919,
        "started_ns": 11 * SECOND,
        "observed_ns": 103 * SECOND,
        "blocked_wall_ns": 1_900_003,
        "complete": True,
        "alive": True,
        "devices": (one,),
    }
    return Process(**(values | given))


def health(**given: Any) -> AgentHealth:
    """Return an agent in order."""
    values: dict[str, Any] = {
        "attach_mode": "session",
        "probes": {"attached": 233, "refused": 2, "failed": 0},
        "libraries": 1,
        "losses": {},
        "unprobed_processes": {},
        "incomplete_processes": 0,
        "hits": 1_000_003,
        "probe_cost_ns": 1086.0,
        "tick_ns": 4_000_003,
        "tick_late": 0,
        "bpf_memory_bytes": 23_000_003,
        "history_bytes": 1_000_003,
        "cpu_ns": 2_000_000_011,
        "rss_bytes": 61_000_003,
        "nvml_error": "",
        "pods_error": "",
        "unresolved": {},
        "ready": True,
    }
    return AgentHealth(**(values | given))


def snapshot(**given: Any) -> Snapshot:
    """Return a snapshot of an idle node with one GPU."""
    values: dict[str, Any] = {
        "version": SNAPSHOT_VERSION,
        "agent_version": __version__,
        "node": "node-7",
        "simulated": False,
        "number": 13,
        "time_unix_ns": 1_800_000_000 * SECOND,
        "time_monotonic_ns": 1_013 * SECOND,
        "interval_ns": SECOND,
        "driver_version": "580.159.04",
        "cuda_version": "13.0",
        "linux_version": "6.18.5",
        "processes": (),
        "series": (),
        "times": (),
        "devices": (device(),),
        "device_use": (),
        "hosts": (),
        "entitlements": (),
        "agent": health(),
    }
    return Snapshot(**(values | given))


def busy_snapshot(**given: Any) -> Snapshot:
    """Return two pods that share GPU_A, and a host process on GPU_B: nothing is zero."""
    train, serve = owner("train-0"), owner("serve-1", namespace="web")
    values: dict[str, Any] = {
        "processes": (process(train, 1), process(serve, 2), process(HOST, 3)),
        "series": (
            busy_series(train),
            busy_series(serve, factor=2),
            series(HOST, GPU_B, operations=operations(LAUNCH=23, COPY_HTOD=5)),
        ),
        "times": (times(train), times(serve, 107 * SECOND), times(HOST, 109 * SECOND)),
        "devices": (device(GPU_A), device(GPU_B)),
        "device_use": (
            DeviceUse(
                gpu_uuid=GPU_A,
                processes_with_context=2,
                processes_active=2,
                processes_claimed=1,
                pods=2,
            ),
        ),
        "hosts": (
            HostContext(
                owner=train,
                cpu_quota_cores=2.5,
                cpu_throttled_ns=3 * SECOND,
                cpu_used_ns=211 * SECOND,
                pressure_ns={"cpu": 5 * SECOND, "io": 7 * SECOND, "memory": SECOND},
            ),
            HostContext(owner=serve),
        ),
        "entitlements": (
            Entitlement(
                owner=train, gpu_uuid=GPU_A, resource="nvidia.com/gpu", device_id=f"{GPU_A}::0",
                replicas=2,
            ),
        ),
        "entitlements_known": True,
        "entitlement_gaps": (
            EntitlementGap(owner=serve, gpu_uuid=GPU_A, kind=GapKind.NOT_ENTITLED),
        ),
        "agent": health(
            off_switches=(
                OffSwitch(source="signal", off=False),
                OffSwitch(source="node", off=True, malformed=2, error="HTTP 500."),
            ),
            pod_events=PodEvents(writes={"created": 3, "updated": 5, "dropped": 0, "failed": 1}),
            load_score=LoadScore(points=110, writes={"written": 7, "removed": 1, "failed": 2}),
        ),
    }  # fmt: skip
    return snapshot(**(values | given))


def next_tick(before: Snapshot, **given: Any) -> Snapshot:
    """Return the snapshot a second later, with these fields changed."""
    moved = replace(
        before,
        number=before.number + 1,
        time_unix_ns=before.time_unix_ns + SECOND,
        time_monotonic_ns=before.time_monotonic_ns + SECOND,
    )
    return replace(moved, **given)
