"""MIG, time-slicing and MPS: does the way a device is shared fit what is offered?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.device_id import parse_device_id
from gpugauge.explain.check import broken, check, need, ok, warning
from gpugauge.explain.checks.plugin import MIXED_PROFILES, on_a_node
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asking, is_plugin, wanted
from gpugauge.explain.report import Answer, Layer


@check(Layer.PLUGIN, 16, node=True)
def mig(e: Evidence) -> Iterator[Answer]:
    """The MIG layout fits the plugin's strategy."""
    on_a_node(e)
    labels = e.node.labels if e.node else {}
    strategy = labels.get("nvidia.com/mig.strategy", "")
    profiles = sorted({d.mig_profile for d in (e.inventory.devices if e.inventory else ())} - {""})
    told = any(
        MIXED_PROFILES in text
        for p in e.node_pods or ()
        if is_plugin(p)
        for c in p.containers
        for text in (c.message, c.last_message)
    )
    invalid = labels.get("nvidia.com/gpu.product", "").endswith("MIG-INVALID")
    if (strategy == "single" and len(profiles) > 1) or told or invalid:
        layout = f"profiles {', '.join(profiles)}" if profiles else "a layout it refuses"
        yield broken(
            f"MIG strategy {strategy or 'single'}, and the node has {layout}",
            "one profile on all GPUs, every MIG GPU with instances; or strategy mixed",
            "nvidia-smi -L; kubectl label node NODE nvidia.com/mig.config=all-1g.10gb --overwrite",
            case=16,
        )
    elif strategy in ("single", "mixed") and profiles:
        yield ok(f"MIG strategy {strategy}, profiles {', '.join(profiles)}")


@check(Layer.PLUGIN, 17)
def two_mig(e: Evidence) -> Iterator[Answer]:
    """A CUDA process sees one MIG instance only, however many its container has."""
    pod = asking(e)
    if e.allocations is None:
        return  # told by `given`
    for container in pod.containers:
        ids = {
            parse_device_id(one.device_id).base
            for one in e.allocations
            if (one.namespace, one.pod, one.container) == (pod.namespace, pod.name, container.name)
        }
        migs = sorted(one for one in ids if one.startswith("MIG-"))
        if len(migs) > 1:
            yield warning(
                f"container {container.name} has {len(migs)} MIG instances; CUDA uses the first",
                "one MIG instance a process",
                "ask for one larger profile, or start one process an instance "
                "(CUDA_VISIBLE_DEVICES=MIG-...)",
                case=17,
            )


@check(Layer.PLUGIN, 18, node=True)
def mig_monitoring(e: Evidence) -> Iterator[Answer]:
    """Who monitors MIG must be allowed to see the instances."""
    if e.inventory is None or not any(d.mig_parent_uuid for d in e.inventory.devices):
        return
    silent = [d for d in e.inventory.devices if d.mig_parent_uuid and d.processes is None]
    step = "set NVIDIA_MIG_MONITOR_DEVICES=all in the monitoring container"
    if silent:
        yield warning(
            f"NVML lists no processes of {len(silent)} MIG instances to this agent",
            "NVIDIA_MIG_MONITOR_DEVICES=all where NVML is asked",
            step,
            case=18,
        )
    if not e.pod_wanted or e.pod is None or e.containers is None:
        return
    for seen in e.containers:
        names = seen.environment or {}
        if (
            names.get("NVIDIA_VISIBLE_DEVICES") == "all"
            and "NVIDIA_MIG_MONITOR_DEVICES" not in names
            and not any(c.name == seen.name and c.privileged for c in wanted(e).containers)
        ):
            yield warning(
                f"container {seen.name} sees all GPUs of a MIG node without "
                "NVIDIA_MIG_MONITOR_DEVICES: NVML answers Insufficient Permissions (4)",
                "NVIDIA_MIG_MONITOR_DEVICES=all, for a container that monitors",
                step,
                case=18,
            )


@check(Layer.PLUGIN, 19, node=True)
def sharing(e: Evidence) -> Iterator[Answer]:
    """The plugin offers as many replicas as the node's labels say."""
    on_a_node(e)
    text = e.node.labels.get("nvidia.com/gpu.replicas", "") if e.node else ""
    if not text.isdecimal() or e.allocatable is None:
        return
    shares: dict[str, int] = {}
    for one in e.allocatable:
        if one.resource in ("nvidia.com/gpu", "nvidia.com/gpu.shared"):
            base = parse_device_id(one.device_id).base
            shares[base] = shares.get(base, 0) + 1
    if not shares:
        return
    labelled, offered = max(1, int(text)), sorted(set(shares.values()))
    if offered != [labelled]:
        yield warning(
            f"label nvidia.com/gpu.replicas is {labelled}, the plugin offers "
            f"{'/'.join(map(str, offered))} replicas a device",
            "both from the same time-slicing or MPS configuration",
            "kubectl -n gpu-operator rollout restart daemonset nvidia-device-plugin-daemonset",
            case=19,
        )
    else:
        yield ok(f"{labelled} replicas a device, as labelled")


@check(Layer.PLUGIN, 23, node=True)
def mps(e: Evidence) -> Iterator[Answer]:
    """Where devices are shared by MPS, its control daemon runs."""
    on_a_node(e)
    if e.node is None or e.node.labels.get("nvidia.com/gpu.sharing-strategy") != "mps":
        return
    services = need(e.services, e, "services")
    folder = e.toolkit.mps_folder if e.toolkit else None
    if services.mps_control and folder is not False:
        yield ok("the MPS control daemon runs")
        return
    what = "no nvidia-cuda-mps-control runs" if not services.mps_control else "no /run/nvidia/mps"
    yield broken(
        f"the node shares by MPS, and {what}: clients hang or get `busy or unavailable`",
        "the MPS control daemon of the device plugin",
        "kubectl get pods -A -o wide | grep mps-control-daemon; restart it, then the plugin",
        case=23,
    )


CHECKS = (mig, two_mig, mig_monitoring, sharing, mps)
