"""The failures of the catalogue (docs/explain.md), each as what is taken from a healthy stage.

Others of the same kind have number 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpugauge.explain.report import Layer, Verdict
from gpugauge.model.abi import Family, Slot
from gpugauge.model.device import DeviceProcess
from gpugauge.model.process import Memory
from tests.explain import objects
from tests.explain.objects import GPU, NODE, event, pod, waiting
from tests.explain.stage import (
    CLAIMS,
    CLASSES,
    DAEMON_SETS,
    DRIVER,
    LIBRARY,
    PID,
    SLICES,
    UVM_MAJOR,
    WANTED,
    Stage,
)
from tests.k8s.fakes.kubelet import Given
from tests.k8s.fakes.objects import pod_uid, resource_slice
from tests.support.snapshots import GPU_A, GPU_B, device

TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
MIG_A = "MIG-11111111-aaaa-bbbb-cccc-111111111111"
MIG_B = "MIG-22222222-aaaa-bbbb-cccc-222222222222"
OTHER = "GPU-77777777-2222-3333-4444-555555555555"
HOUR = 3_600


@dataclass(frozen=True)
class Case:
    """One failure: how to make it, and what must be said."""

    name: str
    number: int
    layer: Layer
    make: Callable[[Stage], None]
    proof: str
    """Must stand in what was seen."""
    step: str
    """Must stand in the next step."""
    verdict: Verdict = Verdict.BROKEN
    wanted: str = WANTED
    guess: bool = False


CASES: list[Case] = []


def case(
    number: int,
    layer: Layer,
    proof: str,
    step: str,
    *,
    verdict: Verdict = Verdict.BROKEN,
    wanted: str = WANTED,
    guess: bool = False,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a failure under the name of its function."""

    def register(make: Callable[[Stage], None]) -> Callable[[Stage], None]:
        name = f"{number:02}_{make.__name__}" if number else f"other_{make.__name__}"
        CASES.append(Case(name, number, layer, make, proof, step, verdict, wanted, guess))
        return make

    return register


def the_pod(s: Stage) -> dict:  # type: ignore[type-arg]
    """Return the stage's pod."""
    assert s.pod is not None
    return s.pod


def the_node(s: Stage) -> dict:  # type: ignore[type-arg]
    """Return the stage's node."""
    assert s.node is not None
    return s.node


# -- spec


@case(7, Layer.SPEC, "Limit must be set", "edit replicaset train")
def fraction_refused(s: Stage) -> None:
    s.pod = None
    told = 'Pod "train-0" is invalid: Limit must be set for non overcommitable resources'
    s.events = [event("FailedCreate", told, name="train", kind="ReplicaSet")]


@case(7, Layer.SPEC, "limit 2 and request 1", "get pod train-0")
def limits_and_requests_differ(s: Stage) -> None:
    the_pod(s)["spec"]["containers"][0]["resources"] = {
        "limits": {GPU: "2"},
        "requests": {GPU: "1"},
    }


@case(0, Layer.SPEC, "there is no such pod", "get pods")
def no_such_pod(s: Stage) -> None:
    s.pod = None


@case(0, Layer.SPEC, "RuntimeClass nvidia, which does not exist", "get runtimeclasses")
def no_runtime_class(s: Stage) -> None:
    s.more = []
    s.not_started("ContainerCreating", event='RuntimeClass "nvidia" not found')


# -- scheduling


@case(1, Layer.SCHEDULING, "other pods hold them", "kubectl describe nodes")
def all_gpus_taken(s: Stage) -> None:
    s.pending("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


@case(1, Layer.SCHEDULING, "no node has nvidia.com/gpu to give", "explain --node   # on gpu-node-1")
def no_node_offers_gpus(s: Stage) -> None:
    s.node = objects.node(capacity={})
    s.pending("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


@case(2, Layer.SCHEDULING, "has taint nvidia.com/gpu=true:NoSchedule", "operator: Exists")
def untolerated_taint(s: Stage) -> None:
    the_node(s)["spec"]["taints"] = [TAINT]
    s.pending("0/3 nodes are available: 3 node(s) had untolerated taint {nvidia.com/gpu: true}.")


@case(3, Layer.SCHEDULING, "wants 0 pods", "edit daemonset nvidia-device-plugin")
def plugin_does_not_tolerate(s: Stage) -> None:
    s.node = objects.node(capacity={}, spec={"taints": [TAINT]})
    tolerates = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}
    s.more.append((DAEMON_SETS, objects.daemon_set("nvidia-device-plugin", 0, [tolerates])))
    s.pending("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")


@case(4, Layer.SCHEDULING, "OutOfnvidia.com/gpu", "delete pod train-0")
def node_before_plugin(s: Stage) -> None:
    the_pod(s)["status"] = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}
    s.kubelet.given = []


@case(5, Layer.SCHEDULING, "mixed MIG and driver 570.133.20", "mig.strategy", guess=True)
def mixed_mig_with_a_spoiled_driver(s: Stage) -> None:
    labels = {
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/cuda.driver-version.full": "570.133.20",
    }
    meta = {**the_node(s)["metadata"], "labels": labels}
    s.node = objects.node(capacity={"nvidia.com/mig-1g.10gb": "7"}, metadata=meta)
    s.pending("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


@case(6, Layer.SCHEDULING, "no ResourceSlice of gpu.nvidia.com", "get resourceslices")
def no_resource_slice(s: Stage) -> None:
    claimed(s)
    s.more.append((CLAIMS, objects.claim("train-0-gpu")))
    s.pending("0/3 nodes are available: 3 cannot allocate all claims.")


@case(6, Layer.SCHEDULING, "claim train-0-gpu is not allocated", "get resourceslices")
def claim_not_allocated(s: Stage) -> None:
    claimed(s)
    s.more += [
        (CLAIMS, objects.claim("train-0-gpu")),
        (SLICES, resource_slice("slice-1", {"gpu-0": GPU_A}, node=NODE)),
    ]
    s.pending("0/3 nodes are available: 3 cannot allocate all claims.")


@case(0, Layer.SCHEDULING, "didn't match Pod's node affinity", "describe pod train-0")
def node_selector(s: Stage) -> None:
    s.pending("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")


@case(1, Layer.SCHEDULING, "no node has nvidia.com/gpus to give; nodes offer nvidia.com/gpu",
      "explain --node")  # fmt: skip
def misspelt_resource(s: Stage) -> None:
    the_pod(s)["spec"]["containers"] = [objects.container(resource="nvidia.com/gpus")]
    s.pending("0/3 nodes are available: 3 Insufficient nvidia.com/gpus.")


@case(0, Layer.SCHEDULING, "is not ready", "describe node gpu-node-1", verdict=Verdict.WARNING)
def node_not_ready(s: Stage) -> None:
    the_node(s)["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]


def claimed(s: Stage) -> None:
    """Let the pod ask by claim."""
    main = {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}
    the_pod(s)["spec"]["containers"] = [main]
    the_pod(s)["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "train-0-gpu"}]


# -- kubelet


@case(8, Layer.ALLOCATION, "cannot allocate unhealthy devices", "delete pod train-0")
def admitted_before_the_plugin(s: Stage) -> None:
    the_pod(s)["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no healthy devices present; cannot allocate "
        "unhealthy devices nvidia.com/gpu, which is unexpected",
    }
    s.kubelet.given = []


@case(9, Layer.ALLOCATION, "it had completed", "newer kubelet")
def completed_then_failed(s: Stage) -> None:
    the_pod(s)["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed",
        "containerStatuses": [objects.ended("main", 0)],
    }
    s.kubelet.given = []


@case(10, Layer.ALLOCATION, "is gone", "systemctl restart kubelet", verdict=Verdict.WARNING,
      wanted="")  # fmt: skip
def devices_of_a_deleted_pod(s: Stage) -> None:
    s.checkpoint(pod_uid("ml/deleted"))


@case(11, Layer.ALLOCATION, "the kubelet lists no devices", "delete pod train-0")
def checkpoint_lost(s: Stage) -> None:
    s.kubelet.given = []
    s.no_devices_inside()


@case(11, Layer.ALLOCATION, "the kubelet may give its GPU to others", "delete pod train-0",
      verdict=Verdict.WARNING)  # fmt: skip
def checkpoint_lost_and_it_runs_on(s: Stage) -> None:
    s.kubelet.given = []


@case(0, Layer.ALLOCATION, "Evicted: The node was low on resource: memory.", "describe pod")
def evicted(s: Stage) -> None:
    told = "The node was low on resource: memory."
    the_pod(s)["status"] = {"phase": "Failed", "reason": "Evicted", "message": told}
    s.kubelet.given = []


@case(0, Layer.ALLOCATION, "OutOfcpu", "describe pod")
def refused_for_another_resource(s: Stage) -> None:
    the_pod(s)["status"] = {"phase": "Failed", "reason": "OutOfcpu", "message": "no CPU is left"}
    s.kubelet.given = []


# -- device plugin


@case(13, Layer.PLUGIN, "is Running, the node's capacity is 0; it has no runtimeClassName",
      "logs nvidia-device-plugin-x", wanted="")  # fmt: skip
def plugin_without_nvml(s: Stage) -> None:
    s.node = objects.node(capacity={})
    s.others[0]["spec"].pop("runtimeClassName")
    s.kubelet.allocatable = {}


@case(13, Layer.PLUGIN, "the kubelet can give no nvidia.com device; plugin sockets: none",
      "device-plugin", wanted="")  # fmt: skip
def plugin_not_registered(s: Stage) -> None:
    (s.kubelet.kubelet_path / "device-plugins/nvidia-gpu.sock").unlink()
    s.kubelet.allocatable = {}


@case(14, Layer.PLUGIN, "1 of 2 nvidia.com/gpu are allocatable", "restart the device plugin",
      verdict=Verdict.WARNING)  # fmt: skip
def one_unhealthy(s: Stage) -> None:
    the_node(s)["status"]["allocatable"] = {GPU: "1"}
    s.kubelet.allocatable = {GPU: [GPU_A]}
    s.log.append((60, "NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus."))


@case(16, Layer.PLUGIN, "profiles 1g.18gb, 3g.71gb", "nvidia-smi -L", wanted="")
def single_strategy_with_two_profiles(s: Stage) -> None:
    the_node(s)["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single"
    s.devices = [
        device(GPU_A, processes=()),
        mig(MIG_A, "1g.18gb"),
        mig(MIG_B, "3g.71gb"),
    ]


@case(17, Layer.PLUGIN, "has 2 MIG instances", "one process an instance", verdict=Verdict.WARNING)
def two_mig_in_one_container(s: Stage) -> None:
    resource = "nvidia.com/mig-1g.18gb"
    the_pod(s)["spec"]["containers"] = [objects.container(gpus=2, resource=resource)]
    s.node = objects.node(capacity={resource: "7"})
    s.kubelet.given = [Given("ml", "train-0", "main", {resource: [MIG_A, MIG_B]})]
    s.kubelet.allocatable = {resource: [MIG_A, MIG_B]}
    held = (DeviceProcess(PID, 1 << 30),)
    s.devices = [
        device(GPU_A, processes=()),
        mig(MIG_A, "1g.18gb", processes=held),
        mig(MIG_B, "1g.18gb"),
    ]
    s.processes = [s.traced(gpu_uuid=MIG_A)]


@case(18, Layer.PLUGIN, "without NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES=all",
      verdict=Verdict.WARNING)  # fmt: skip
def monitor_without_mig_rights(s: Stage) -> None:
    the_pod(s)["spec"]["containers"] = [objects.container(gpus=0)]
    s.environment(NVIDIA_VISIBLE_DEVICES="all", NVIDIA_DRIVER_CAPABILITIES="utility")
    s.devices = [device(GPU_A, processes=()), mig(MIG_A, "1g.18gb")]
    s.kubelet.given, s.processes = [], []


@case(19, Layer.PLUGIN, "gpu.replicas is 4, the plugin offers 1", "rollout restart daemonset",
      verdict=Verdict.WARNING)  # fmt: skip
def sharing_not_taken_up(s: Stage) -> None:
    the_node(s)["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"


@case(23, Layer.PLUGIN, "no nvidia-cuda-mps-control runs", "mps-control-daemon")
def mps_without_its_daemon(s: Stage) -> None:
    the_node(s)["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = "mps"


@case(47, Layer.PLUGIN, "waits in init container toolkit-validation", "-c toolkit-validation",
      wanted="")  # fmt: skip
def operator_stuck(s: Stage) -> None:
    stuck = objects.plugin_pod()
    stuck["spec"]["initContainers"] = [{"name": "toolkit-validation"}]
    stuck["status"] = {
        "phase": "Pending",
        "initContainerStatuses": [objects.running("toolkit-validation", "gpu-operator/x")],
    }
    s.others = [stuck]
    s.write(s.root / "run/nvidia/validations/driver-ready", "")


# -- container runtime


@case(24, Layer.RUNTIME, 'no runtime for "nvidia" is configured', "nvidia-ctk runtime configure")
def runtime_not_configured(s: Stage) -> None:
    s.not_started(
        "ContainerCreating",
        event="Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get "
        'sandbox runtime: no runtime for "nvidia" is configured',
    )


@case(24, Layer.RUNTIME, "no runtime named nvidia in /etc/containerd/config.toml", "nvidia-ctk",
      verdict=Verdict.BROKEN)  # fmt: skip
def configuration_overwritten(s: Stage) -> None:
    s.not_started("ContainerCreating")
    s.write(s.root / "etc/containerd/config.toml", 'version = 2\n[plugins."x".runtimes.runc]\n')


@case(25, Layer.RUNTIME, "allows no device of major 195", "create-dev-char-symlinks")
def device_rule_lost(s: Stage) -> None:
    base = f"/kubepods/burstable/pod{pod_uid(WANTED)}"
    from tests.k8s.fakes.objects import container_id

    where = f"{base}/{container_id(f'{WANTED}/main')}"
    s.write(s.main / "cgroup", f"5:devices:{where}\n0::{where}\n")
    s.write(s.sys / f"fs/cgroup/devices{where}/devices.list", "c 1:3 rwm\nc 136:* rwm\n")


@case(25, Layer.RUNTIME, "17 CUDA calls answered 999", "nvidia-ctk system", guess=True)
def device_rule_lost_on_v2(s: Stage) -> None:
    for link in (s.root / "dev/char").iterdir():
        link.unlink()
    s.processes = [s.traced(errors={(Slot.LAUNCH, 999): 17})]


@case(26, Layer.DRIVER, "Linux has 580.126.09 loaded, the library is 580.159.04", "reboot")
def driver_and_library_differ(s: Stage) -> None:
    s.loaded("580.126.09")
    s.nvml_error = "The NVML library and the loaded NVIDIA driver differ in version."
    s.not_started(
        "RunContainerError",
        "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
    )


@case(26, Layer.RUNTIME, "maps its own /opt/driver/libcuda.so.575.51.03", "out of the image")
def library_of_the_image_differs(s: Stage) -> None:
    s.maps(s.main, "/opt/driver/libcuda.so.575.51.03")


@case(27, Layer.RUNTIME, "unsatisfied condition: cuda>=13.0", "NVIDIA_DISABLE_REQUIRE")
def image_wants_a_newer_driver(s: Stage) -> None:
    s.not_started(
        "RunContainerError",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please "
        "update your driver to a newer version",
    )


@case(28, Layer.RUNTIME, "NVIDIA GeForce RTX 4090: CUDA answers 804", "LD_LIBRARY_PATH")
def compatibility_on_a_consumer_gpu(s: Stage) -> None:
    s.maps(s.main, "/usr/local/cuda-13.0/compat/libcuda.so.590.44.01")
    s.devices = [replace(one, model="NVIDIA GeForce RTX 4090") for one in s.devices]


@case(29, Layer.RUNTIME, "unresolvable CDI devices", "nvidia-ctk cdi generate")
def stale_cdi(s: Stage) -> None:
    s.not_started(
        "CreateContainerError",
        "failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
    )


@case(30, Layer.RUNTIME, "the toolkit is in CDI mode, and no specification", "cdi generate",
      wanted="")  # fmt: skip
def no_cdi_specification(s: Stage) -> None:
    s.write(
        s.root / "etc/nvidia-container-runtime/config.toml",
        '[nvidia-container-runtime]\nmode = "cdi"\n',
    )


@case(31, Layer.RUNTIME, "NVIDIA_DRIVER_CAPABILITIES=utility", "compute,utility")
def utility_only(s: Stage) -> None:
    s.environment(NVIDIA_DRIVER_CAPABILITIES="utility")
    for path in (s.main / "root" / LIBRARY).iterdir():
        path.unlink()
    s.maps(s.main, "")
    s.processes = []


@case(31, Layer.RUNTIME, "NVIDIA_DRIVER_CAPABILITIES=graphics,utility", "compute,utility",
      verdict=Verdict.WARNING)  # fmt: skip
def pictures_only(s: Stage) -> None:
    utility_only(s)
    s.environment(NVIDIA_DRIVER_CAPABILITIES="graphics,utility")


@case(32, Layer.RUNTIME, "no NVIDIA device below its /dev; the pod has no runtimeClassName",
      "runtimeClassName: nvidia")  # fmt: skip
def no_device_inside(s: Stage) -> None:
    the_pod(s)["spec"].pop("runtimeClassName")
    s.no_devices_inside()


@case(32, Layer.RUNTIME, "executable file not found", "runtimeClassName: nvidia")
def nvidia_smi_not_found(s: Stage) -> None:
    the_pod(s)["spec"].pop("runtimeClassName")
    s.not_started(
        "RunContainerError",
        'exec: "nvidia-smi": executable file not found in $PATH: unknown',
    )


@case(33, Layer.DRIVER, "the module nvidia_uvm is not loaded", "modprobe nvidia-uvm")
def uvm_not_loaded(s: Stage) -> None:
    s.majors(**{"nvidia-frontend": 195})
    (s.root / "dev/nvidia-uvm").unlink()
    (s.main / "root/dev/nvidia-uvm").unlink()
    s.processes = []


@case(33, Layer.RUNTIME, f"has major 511, Linux uses {UVM_MAJOR}", "nvidia-modprobe -u")
def uvm_of_an_old_number_inside(s: Stage) -> None:
    s.device_file(s.main / "root/dev/nvidia-uvm", 511, 0)
    s.processes = []


@case(34, Layer.RUNTIME, "asked for no GPU and sees 2 (NVIDIA_VISIBLE_DEVICES=all)",
      "accept-nvidia-visible-devices-envvar", verdict=Verdict.WARNING)  # fmt: skip
def sees_all_without_asking(s: Stage) -> None:
    the_pod(s)["spec"]["containers"] = [objects.container(gpus=0)]
    s.make_devices(s.main / "root/dev", 2)
    s.environment(NVIDIA_VISIBLE_DEVICES="all")
    s.kubelet.given = []


@case(35, Layer.RUNTIME, "is privileged: it sees 2 GPUs", "drop securityContext.privileged",
      verdict=Verdict.WARNING)  # fmt: skip
def privileged_sees_all(s: Stage) -> None:
    the_pod(s)["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    s.make_devices(s.main / "root/dev", 2)


@case(36, Layer.RUNTIME, "SELinux: audit", "container_use_devices")
def selinux_denies(s: Stage) -> None:
    s.log.append(
        (
            HOUR + 7,
            'audit: type=1400 audit(1.7:3): avc:  denied  { open } for  pid=4711 comm="python3" '
            'path="/dev/nvidiactl" scontext=system_u:system_r:container_t:s0',
        )
    )


@case(46, Layer.RUNTIME, "2 of 2 GPUs are bound to vfio-pci", "/driver", wanted="")
def passed_through(s: Stage) -> None:
    for address in ("0000:01:00.0", "0000:02:00.0"):
        s.on_bus(address, "vfio-pci")


@case(0, Layer.RUNTIME, "ImagePullBackOff", "describe pod train-0")
def image_cannot_be_pulled(s: Stage) -> None:
    s.not_started("ImagePullBackOff", 'Back-off pulling image "registry.example/train:3"')


# -- driver


@case(37, Layer.DRIVER, "the GPU fell off the bus", "power-cycle")
def fell_off_the_bus(s: Stage) -> None:
    s.log.append(
        (HOUR + 97, "NVRM: Xid (PCI:0000:01:00): 79, pid=4711, GPU has fallen off the bus.")
    )


@case(37, Layer.DRIVER, f"NVML does not list {OTHER}", "dmesg")
def given_device_is_gone(s: Stage) -> None:
    s.kubelet.given = [Given("ml", "train-0", "main", {GPU: [OTHER]})]


@case(38, Layer.DRIVER, "(GSP) timed out", "update the driver")
def gsp_timeout(s: Stage) -> None:
    s.log.append((HOUR + 97, "NVRM: Xid (PCI:0000:01:00): 119, pid=4711, Timeout after 6s of RPC"))


@case(39, Layer.DRIVER, "memory of the GPU has errors", "reset the GPU")
def ecc(s: Stage) -> None:
    s.log.append((HOUR + 97, "NVRM: Xid (PCI:0000:01:00): 94, pid=4711, Contained ECC error"))


@case(40, Layer.DRIVER, "nouveau is loaded", "blacklist nouveau", wanted="")
def nouveau(s: Stage) -> None:
    s.modules("nouveau")
    s.loaded("")
    s.nvml_error = "The NVIDIA driver is not loaded."
    s.on_bus("0000:01:00.0", "nouveau")


@case(41, Layer.DRIVER, "no nv-fabricmanager runs", "systemctl status nvidia-fabricmanager")
def no_fabric_manager(s: Stage) -> None:
    for number in range(4):
        s.device_file(s.root / f"dev/nvidia-nvswitch{number}", 501, number)
    s.processes = [s.traced(errors={(Slot.CONTEXT, 802): 3}, contexts=0, operations={})]


@case(0, Layer.DRIVER, "the driver is not loaded", "modprobe nvidia", wanted="")
def driver_not_loaded(s: Stage) -> None:
    s.modules()
    s.loaded("")
    s.nvml_error = "The NVIDIA driver is not loaded."
    s.on_bus("0000:01:00.0", "")


@case(0, Layer.DRIVER, "NVML answered 999", "nvidia-smi")
def nvml_answers_unknown_error(s: Stage) -> None:
    s.nvml_error = "NVML answered 999: Unknown Error."


@case(0, Layer.DRIVER, "/dev/nvidiactl is not there", "nvidia-modprobe")
def no_device_files_on_the_node(s: Stage) -> None:
    for path in (s.root / "dev").glob("nvidia*"):
        path.unlink()
    s.no_devices_inside()


# -- process


@case(21, Layer.PROCESS, "other pods (ml/neighbour-0) hold", "MIG")
def neighbour_holds_the_memory(s: Stage) -> None:
    failed = {Family.DEVICE: Memory(1 << 30, 1 << 30, 3, 0, 7, 4 << 30)}
    mine = s.traced(memory=failed)
    s.processes = [mine, s.traced(4712, "neighbour-0")]
    s.make_container(4712, pod="ml/neighbour-0")
    s.others.append(pod("neighbour-0"))
    held = (DeviceProcess(PID, 2 << 30), DeviceProcess(4712, 128 << 30))
    s.devices[0] = device(GPU_A, processes=held)


@case(
    42, Layer.PROCESS, "exclusive_process and pid 23 has it; 5 CUDA calls answered 46", "-c DEFAULT"
)
def exclusive_mode(s: Stage) -> None:
    s.processes = [s.traced(errors={(Slot.CONTEXT, 46): 5}, contexts=0, operations={})]
    s.make_process(23, "train", "/system.slice/x.service")
    held = (DeviceProcess(23, 3 << 30),)
    s.devices[0] = device(GPU_A, compute_mode="exclusive_process", processes=held)


@case(43, Layer.PROCESS, "(/dev/shm) of main is full: 63.0 MiB of 64.0 MiB", "emptyDir")
def shared_memory_full(s: Stage) -> None:
    s.shm = (64 << 20, 63 << 20)


@case(43, Layer.PROCESS, "a bus error", "emptyDir", guess=True)
def bus_error(s: Stage) -> None:
    the_pod(s)["status"]["phase"] = "Running"
    the_pod(s)["status"]["containerStatuses"] = [objects.ended("main", 135, "Error")]


@case(44, Layer.PROCESS, f"3.0 GiB of {GPU_B} is held for pid 31337, which is gone", "gpu-reset",
      wanted="")  # fmt: skip
def memory_of_the_dead(s: Stage) -> None:
    s.devices[1] = device(GPU_B, processes=(DeviceProcess(31337, 3 << 30),))


@case(
    44,
    Layer.PROCESS,
    "which runs on after its pod ml/deleted-0 is gone",
    "kill what is left",
    wanted="",
)
def process_outlives_its_pod(s: Stage) -> None:
    s.make_container(31337, pod="ml/deleted-0")
    s.processes.append(s.traced(31337, "deleted-0", gpu_uuid=GPU_B))
    s.devices[1] = device(GPU_B, processes=(DeviceProcess(31337, 3 << 30),))


@case(45, Layer.PROCESS, "it has requested 130.0 GiB and holds 132.0 GiB", "smaller batches")
def own_allocator_holds_the_memory(s: Stage) -> None:
    failed = {Family.DEVICE: Memory(130 << 30, 130 << 30, 301, 0, 7, 4 << 30)}
    s.processes = [s.traced(memory=failed, memory_held_bytes=132 << 30)]
    s.devices[0] = device(GPU_A, processes=(DeviceProcess(PID, 132 << 30),))


@case(0, Layer.PROCESS, "CrashLoopBackOff (7 restarts)", "logs train-0 -c main --previous")
def crash_loop(s: Stage) -> None:
    s.not_started("CrashLoopBackOff", "back-off 5m0s restarting failed container")
    the_pod(s)["status"]["containerStatuses"][0]["restartCount"] = 7


def mig(uuid: str, profile: str, **more: object) -> object:
    """Return a MIG instance of the first GPU."""
    given = {"mig_parent_uuid": GPU_A, "mig_profile": profile, "processes": (), **more}
    return replace(device(GPU_A), uuid=uuid, **given)  # type: ignore[arg-type]


__all__ = ["CASES", "CLASSES", "DRIVER", "Case", "waiting"]
