"""Contention: who shares a device, what it holds, who is entitled to it."""

from __future__ import annotations

from gpugauge.attribution.names import clean
from gpugauge.export import samples as of
from gpugauge.export.metric import DEVICE, OWNER, WORKLOAD, Certainty, Kind, Metric
from gpugauge.export.view import labels_of

METRICS: tuple[Metric, ...] = (
    Metric(
        name="device_processes",
        kind=Kind.GAUGE,
        labels=(*DEVICE, "state"),
        help="Processes on the device, by what they do there.",
        samples=of.device_use(
            lambda use: (
                (("context",), use.processes_with_context),
                (("active",), use.processes_active),
                (("claimed",), use.processes_claimed),
            )
        ),
        meaning="`context`: has a context on it. `active`: submitted or waited since the last "
        "tick. `claimed`: says so, but NVML does not list it there; never used to blame anybody.",
        wrong_when="Graphics processes and those of another PID namespace host are not traced.",
    ),
    Metric(
        name="device_pods",
        kind=Kind.GAUGE,
        labels=DEVICE,
        help="Pods with a process on the device.",
        samples=of.device_use(lambda use: (((), use.pods),)),
        meaning="Two or more share it: they take turns, and memory and faults are common.",
        wrong_when="Processes that could not be resolved to a pod are not counted.",
    ),
    Metric(
        name="entitled_gpus",
        kind=Kind.GAUGE,
        labels=(*OWNER, "resource"),
        help="Devices that the kubelet gave to the container, by resource.",
        samples=lambda view: view.entitled.items(),
        meaning="Beside use it shows who uses a GPU without having asked, and who holds one "
        "without using it.",
        wrong_when="Absent where the kubelet's PodResources socket is not reachable. A replica of "
        "a shared device counts as one.",
    ),
    Metric(
        name="entitlement_gap",
        kind=Kind.GAUGE,
        labels=(*WORKLOAD, "kind"),
        help="1 where what a container uses differs from what the kubelet gave it.",
        samples=lambda view: view.gaps.items(),
        meaning="`not_entitled`: it submits work to a device that its pod was not given; whoever "
        "was given it pays for that. `not_used`: its pod holds the device for two minutes or more, "
        "and no process of the pod has submitted work to it since the agent started.",
        wrong_when="Absent while `gpugauge_agent_entitlements_up` is 0, and for devices whose "
        "UUID is not known. Devices of resource names or DRA drivers that the settings do not "
        "name are not seen as given. After a restart of the agent earlier use is forgotten.",
    ),
    Metric(
        name="device_info",
        kind=Kind.GAUGE,
        labels=(
            *DEVICE,
            "UUID",
            "pci_bus_id",
            "compute_mode",
            "mig_profile",
            "mig_parent_uuid",
            "driver_version",
            "cuda_version",
        ),
        help="What the device is; always 1.",
        samples=of.device_info,
        meaning="For joins. `UUID` repeats `gpu_uuid` in the spelling of dcgm-exporter.",
        wrong_when="Absent while NVML does not answer.",
    ),
    Metric(
        name="device_price_per_hour",
        kind=Kind.GAUGE,
        labels=(*DEVICE, "currency"),
        help="What the device costs for one hour.",
        samples=lambda view: (
            ((*labels_of(device), clean(view.price.currency)), price)
            for device in view.snapshot.devices
            if (price := view.price.of(device.model, device.mig_profile)) is not None
        ),
        meaning="From the setting `price.per_gpu_hour`, by the model. Times idle devices it is "
        "what they cost.",
        wrong_when="Absent, never 0, where the model has no price. A GPU cut into MIG instances "
        "keeps its own price beside those of its instances: add up one or the other.",
    ),
    Metric(
        name="device_memory_capacity_bytes",
        kind=Kind.GAUGE,
        labels=DEVICE,
        help="Memory of the device.",
        samples=of.device(lambda d: d.memory_total_bytes),
        meaning="By NVML.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_memory_used_bytes",
        kind=Kind.GAUGE,
        labels=DEVICE,
        help="Memory of the device in use, by whomever.",
        samples=of.device(lambda d: d.memory_used_bytes),
        meaning="By NVML. More than the held memory of all workloads together means that "
        "somebody untraced is on the device.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_memory_reserved_bytes",
        kind=Kind.GAUGE,
        labels=DEVICE,
        help="Memory of the device that the driver keeps for itself.",
        samples=of.device(lambda d: d.memory_reserved_bytes),
        meaning="By NVML. No workload can have it.",
        wrong_when="Absent where NVML does not say.",
    ),
    Metric(
        name="device_utilization_ratio",
        kind=Kind.GAUGE,
        labels=DEVICE,
        help="Share of time in which anything at all ran on the device, from 0 to 1.",
        samples=of.device(lambda d: d.utilization_ratio),
        certainty=Certainty.ESTIMATE,
        meaning="By NVML. One thread on one of its processors makes it 1: it says busy, not full.",
        wrong_when="Absent under MIG. A sample of the driver's own choosing.",
    ),
    Metric(
        name="workload_info",
        kind=Kind.GAUGE,
        labels=(*OWNER, "workload_kind"),
        help="What kind of workload the owner belongs to; always 1.",
        samples=of.workload_info,
        meaning="Deployment, StatefulSet, Job and so on, for joins.",
        wrong_when="Empty while the API server was never reachable.",
    ),
)
