"""Ten healthy ways to have a GPU: none is called broken, and no step passes unchecked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpugauge.explain.facts import given_uuids
from gpugauge.explain.report import Layer, Verdict
from gpugauge.explain.text import report_text
from gpugauge.explain.walk import walk
from gpugauge.model.device import DeviceProcess
from tests.explain import objects
from tests.explain.cases import MIG_A, claimed, mig, the_node, the_pod
from tests.explain.objects import GPU, NODE
from tests.explain.stage import CLAIMS, PID, SLICES, Stage
from tests.k8s.fakes.kubelet import Given
from tests.k8s.fakes.objects import pod_uid, resource_slice
from tests.support.snapshots import GPU_A, GPU_B, device

HELD = (DeviceProcess(PID, 3 << 30),)
Make = Callable[[Stage], None]


def plain(s: Stage) -> None:
    """One whole GPU by the device plugin."""


def time_slicing(s: Stage) -> None:
    amounts = {GPU: "8"}
    s.node = objects.node(capacity=amounts)
    the_node(s)["metadata"]["labels"] |= {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    s.kubelet.given = [Given("ml", "train-0", "main", {GPU: [f"{GPU_A}::3"]})]
    s.kubelet.allocatable = {GPU: [f"{gpu}::{n}" for gpu in (GPU_A, GPU_B) for n in range(4)]}
    s.processes.append(s.traced(4712, "neighbour-0"))
    s.make_container(4712, pod="ml/neighbour-0")
    s.others.append(objects.pod("neighbour-0"))
    s.devices[0] = device(GPU_A, processes=(*HELD, DeviceProcess(4712, 5 << 30)))


def mps(s: Stage) -> None:
    time_slicing(s)
    the_node(s)["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = "mps"
    s.make_process(301, "nvidia-cuda-mps", "/kubepods/burstable/mps")
    (s.root / "run/nvidia/mps/nvidia.com/gpu").mkdir(parents=True)
    s.devices = [replace(one, compute_mode="exclusive_process") for one in s.devices]


def mig_single(s: Stage) -> None:
    the_node(s)["metadata"]["labels"]["nvidia.com/mig.strategy"] = "single"
    s.kubelet.given = [Given("ml", "train-0", "main", {GPU: [MIG_A]})]
    s.kubelet.allocatable = {GPU: [MIG_A, "MIG-33333333-aaaa-bbbb-cccc-333333333333"]}
    s.devices = [
        device(GPU_A, processes=()),
        mig(MIG_A, "1g.18gb", processes=HELD),
        mig("MIG-33333333-aaaa-bbbb-cccc-333333333333", "1g.18gb"),
    ]
    s.device_file(s.main / "root/dev/nvidia-caps/nvidia-cap12", 236, 12)
    s.processes = [s.traced(gpu_uuid=MIG_A)]


def mig_mixed(s: Stage) -> None:
    mig_single(s)
    resource = "nvidia.com/mig-1g.18gb"
    s.node = objects.node(capacity={resource: "1", "nvidia.com/mig-3g.71gb": "1"})
    the_node(s)["metadata"]["labels"]["nvidia.com/mig.strategy"] = "mixed"
    the_pod(s)["spec"]["containers"] = [objects.container(resource=resource)]
    s.kubelet.given = [Given("ml", "train-0", "main", {resource: [MIG_A]})]
    s.kubelet.allocatable = {resource: [MIG_A], "nvidia.com/mig-3g.71gb": ["MIG-x"]}
    s.devices[2] = replace(s.devices[2], mig_profile="3g.71gb")


def dra(s: Stage) -> None:
    claimed(s)
    s.node = objects.node(capacity={})
    s.others = []
    s.more += [
        (CLAIMS, objects.claim("train-0-gpu", "gpu-0")),
        (SLICES, resource_slice("slice-1", {"gpu-0": GPU_A, "gpu-1": GPU_B}, node=NODE)),
    ]
    claims = [("ml", "train-0-gpu", "gpu.nvidia.com", NODE, "gpu-0")]
    s.kubelet.given = [Given("ml", "train-0", "main", claims=claims)]
    s.kubelet.allocatable = {}
    (s.kubelet.kubelet_path / "device-plugins/nvidia-gpu.sock").unlink()


def runtime_class_default(s: Stage) -> None:
    """No runtimeClassName: nvidia is the node's default runtime."""
    the_pod(s)["spec"].pop("runtimeClassName")
    s.write(
        s.root / "etc/containerd/conf.d/99-nvidia.toml",
        '[plugins.cri.containerd]\ndefault_runtime_name = "nvidia"\n'
        "[plugins.cri.containerd.runtimes.nvidia]\n",
    )


def cdi(s: Stage) -> None:
    """By CDI alone: no runtime of that name, no RuntimeClass, no links in /dev/char."""
    the_pod(s)["spec"].pop("runtimeClassName")
    s.write(s.root / "etc/containerd/config.toml", "version = 3\n")
    s.write(
        s.root / "etc/nvidia-container-runtime/config.toml",
        '[nvidia-container-runtime]\nmode = "cdi"\n',
    )
    s.write(
        s.root / "var/run/cdi/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
        "- name: '0'\n  containerEdits: {}\n- name: all\n  containerEdits: {}\n",
    )
    for link in (s.root / "dev/char").iterdir():
        link.unlink()


def privileged(s: Stage) -> None:
    the_pod(s)["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    s.make_devices(s.main / "root/dev", 2)


def visible_without_limits(s: Stage) -> None:
    the_pod(s)["spec"]["containers"] = [objects.container(gpus=0)]
    s.make_devices(s.main / "root/dev", 2)
    s.environment(NVIDIA_VISIBLE_DEVICES="all")
    s.kubelet.given = []


def init_container(s: Stage) -> None:
    """The GPU is asked for by an init container that is over; the app container asks as well."""
    the_pod(s)["spec"]["initContainers"] = [objects.container("warm-up")]
    the_pod(s)["status"]["initContainerStatuses"] = [objects.ended("warm-up", 0)]


def two_containers(s: Stage) -> None:
    """Two containers with a GPU each, one pod."""
    the_pod(s)["spec"]["containers"] = [objects.container(), objects.container("second")]
    the_pod(s)["status"]["containerStatuses"].append(objects.running("second"))
    s.kubelet.given.append(Given("ml", "train-0", "second", {GPU: [GPU_B]}))
    s.make_container(4712, "second")
    s.processes.append(s.traced(4712, gpu_uuid=GPU_B))
    s.devices[1] = device(GPU_B, processes=(DeviceProcess(4712, 1 << 30),))


WARNED: dict[Make, tuple[Layer, ...]] = {
    privileged: (Layer.RUNTIME,),
    visible_without_limits: (Layer.RUNTIME,),
}
"""What is healthy and still deserves a word."""
VARIANTS: tuple[Make, ...] = (
    plain,
    time_slicing,
    mps,
    mig_single,
    mig_mixed,
    dra,
    runtime_class_default,
    cdi,
    privileged,
    visible_without_limits,
    init_container,
    two_containers,
)


@pytest.mark.parametrize("make", VARIANTS, ids=lambda make: make.__name__)
def test_a_healthy_pod_is_not_called_broken(stage: Stage, make: Make) -> None:
    make(stage)
    report = stage.explain()
    text = report_text(report)
    assert report.broken == "", text
    warned = tuple(s.layer for s in report.steps if s.verdict is Verdict.WARNING)
    assert warned == WARNED.get(make, ()), text
    if make is visible_without_limits:
        assert "asks for no GPU" in report.conclusion
        return
    assert [s.layer for s in report.steps if s.verdict is Verdict.NOT_SEEN] == [], text
    assert report.conclusion.startswith("The request is served"), text


@pytest.mark.parametrize("make", VARIANTS, ids=lambda make: make.__name__)
def test_its_node_is_not_called_broken(stage: Stage, make: Make) -> None:
    make(stage)
    report = stage.explain("")
    verdicts = {step.verdict for step in report.steps}
    assert verdicts == {Verdict.OK}, report_text(report)


@pytest.mark.parametrize(
    ("device_id", "minors"),
    [("nvidia0", True), ("nvidia0/vgpu2", True), (f"{GPU_A}::7", False), ("all", False)],
)
def test_ids_of_other_plugins_lead_to_the_device(
    stage: Stage, device_id: str, minors: bool
) -> None:
    stage.kubelet.given = [Given("ml", "train-0", "main", {GPU: [device_id]})]
    if minors:
        told = f"Model: x\nGPU UUID: {GPU_A}\nDevice Minor: 0\n"
        stage.write(stage.proc / "driver/nvidia/gpus/0000:01:00.0/information", told)
    evidence = stage.evidence()
    assert GPU_A in given_uuids(evidence)
    assert walk(evidence).broken == ""


def test_a_claim_leads_to_the_device_by_its_resource_slice(stage: Stage) -> None:
    dra(stage)
    stage.processes = []
    evidence = stage.evidence()
    assert given_uuids(evidence) == {GPU_A}
    assert [one.gpu_uuid for one in walk(evidence).devices] == [GPU_A]


def test_processes_of_other_devices_are_left_out(stage: Stage) -> None:
    stage.processes.append(stage.traced(4713, "elsewhere-0", gpu_uuid=GPU_B))
    stage.processes.append(stage.traced(4714, "neighbour-0"))
    found = stage.evidence().processes
    assert found is not None
    assert {one.owner.pod for one in found} == {"train-0", "neighbour-0"}
    everybody = stage.evidence("").processes
    assert everybody is not None and len(everybody) == 3


def test_a_client_of_mps_that_has_not_begun_is_not_kept_out(stage: Stage) -> None:
    mps(stage)
    stage.processes = []
    server = (DeviceProcess(302, 30 << 20),)
    stage.make_process(302, "nvidia-cuda-mps", "/kubepods/burstable/mps")
    stage.devices[0] = device(GPU_A, compute_mode="exclusive_process", processes=server)
    report = stage.explain()
    assert report.broken == "", report_text(report)
    assert "no process of it has called CUDA yet" in report_text(report)


def test_events_of_an_earlier_pod_of_that_name_are_not_its(stage: Stage) -> None:
    stage.not_started("ContainerCreating")
    told = 'no runtime for "nvidia" is configured'
    stage.events.append(objects.event("FailedCreatePodSandBox", told, uid="another"))
    assert stage.explain().broken == ""
    stage.events.append(objects.event("FailedCreatePodSandBox", told, uid=pod_uid("ml/train-0")))
    assert stage.explain().broken == "container runtime"


def test_wsl_has_one_file_for_all(stage: Stage) -> None:
    stage.no_devices_inside()
    stage.device_file(stage.main / "root/dev/dxg", 10, 127)
    report = stage.explain()
    assert "main has /dev/dxg" in {a.seen for s in report.steps for a in s.answers}


def test_a_claim_for_something_else_asks_for_no_gpu(stage: Stage) -> None:
    claimed(stage)
    network = objects.claim("train-0-gpu", "nic-0")
    network["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "rdma.example"
    network["status"]["allocation"]["devices"]["results"][0]["driver"] = "rdma.example"
    stage.more.append((CLAIMS, network))
    stage.no_devices_inside()
    stage.kubelet.given = []
    report = stage.explain()
    assert report.broken == "", report_text(report)
    assert "asks for no GPU" in report.conclusion


def test_the_control_file_alone_is_no_switch(stage: Stage) -> None:
    stage.device_file(stage.root / "dev/nvidia-nvswitchctl", 501, 255)
    assert stage.explain("").broken == ""
    assert stage.explain().broken == ""
