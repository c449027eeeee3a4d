"""A node and its cluster, built from parts: healthy, until a test takes something away.

API server and kubelet are real servers with made-up content; /proc, /dev, /sys and the
host's files are trees in a folder; NVML's inventory and the agent's processes are objects.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpugauge.attribution.api_server import ApiServer
from gpugauge.discovery.host import mapped_file_id
from gpugauge.errors import UnavailableError
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.gather.look import Sources, look
from gpugauge.explain.gather.places import Places
from gpugauge.explain.report import Report
from gpugauge.explain.walk import walk
from gpugauge.model.abi import Family
from gpugauge.model.device import Device, DeviceProcess, Inventory
from gpugauge.model.process import Context, Memory, Process
from tests.explain import objects
from tests.explain.objects import GPU, NODE, Object
from tests.k8s.fakes.api_server import EVENTS, NODES, PODS, TOKEN, FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet, Given
from tests.k8s.fakes.objects import container_id, pod_uid
from tests.support.snapshots import GPU_A, GPU_B, device, owner, process, snapshot

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
COLLECTIONS = (PODS, EVENTS, NODES, CLASSES, CLAIMS, SLICES, DAEMON_SETS)
NOW_UNIX_NS = objects.STARTED_UNIX_NS + 3_600_000_000_000
BOOT_UNIX_NS = objects.STARTED_UNIX_NS - 3_600_000_000_000
"""An hour before the pod started: the log's clock is 0 then."""
NOW_MONOTONIC_NS = 7_200_000_000_000
DRIVER = "580.159.04"
PID = 4711
LIBRARY = "usr/lib/x86_64-linux-gnu"
UVM_MAJOR = 507
WANTED = "ml/train-0"
SECOND = 1_000_000_000


class Stage:
    """Change its parts, then `explain`."""

    def __init__(self, folder: Path, server: FakeApiServer, kubelet: FakeKubelet) -> None:
        self.folder, self.server, self.kubelet = folder, server, kubelet
        self.root, self.proc, self.sys = folder / "root", folder / "proc", folder / "sys"
        server.paths = set(COLLECTIONS)
        server.forbidden = set()
        server.objects = {}
        self.pod: Object | None = objects.pod()
        self.node: Object | None = objects.node()
        self.others: list[Object] = [objects.plugin_pod()]
        self.events: list[Object] = []
        self.more: list[tuple[str, Object]] = [
            (CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        ]
        kubelet.given = [Given("ml", "train-0", "main", {GPU: [GPU_A]})]
        kubelet.allocatable = {GPU: [GPU_A, GPU_B]}
        held = (DeviceProcess(PID, 3 << 30),)
        self.devices: list[Device] = [
            device(GPU_A, processes=held),
            device(GPU_B, processes=()),
        ]
        self.nvml_error = ""
        self.agent_error = ""
        self.processes: list[Process] = [self.traced()]
        self.log: list[tuple[int, str]] = [(60, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module")]
        self.shm = (64 << 20, 1 << 20)
        self._make_host()
        self.make_container(PID)

    # -- parts

    def traced(self, pid: int = PID, pod: str = "train-0", **changes: Any) -> Process:
        """Return a traced process: one context, launches, on the first GPU."""
        one = process(owner(pod), pid=pid, comm="python3")
        known = {
            "memory": {Family.DEVICE: Memory(2 << 30, 5 << 29, allocations=3, frees=1)},
            "memory_held_bytes": 3 << 30,
            "context_bytes": 554 << 20,
        }
        place = replace(one.devices[0], **(known | changes))
        opened = Context(GPU_A, NOW_MONOTONIC_NS - 191 * SECOND)
        return replace(one, number=pid, devices=(place,), contexts=(opened,))

    def write(self, path: Path, text: str | bytes) -> Path:
        """Write a file below the trees, folders included."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def device_file(self, path: Path, major: int, minor: int) -> None:
        """Make a device file; nothing ever opens it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(major, minor))

    def make_devices(self, dev: Path, gpus: int = 2) -> None:
        """Make NVIDIA's files in a /dev."""
        dev.mkdir(parents=True, exist_ok=True)
        self.device_file(dev / "nvidiactl", 195, 255)
        self.device_file(dev / "nvidia-uvm", UVM_MAJOR, 0)
        for minor in range(gpus):
            self.device_file(dev / f"nvidia{minor}", 195, minor)

    def _make_host(self) -> None:
        self.make_devices(self.root / "dev")
        (self.root / "dev/char").mkdir()
        for name in ("195:255", "195:0", "195:1"):
            (self.root / "dev/char" / name).symlink_to("../nvidiactl")
        self.library = self.write(self.root / LIBRARY / f"libcuda.so.{DRIVER}", "\x7fELF host")
        (self.root / LIBRARY / "libcuda.so.1").symlink_to(f"libcuda.so.{DRIVER}")
        self.write(
            self.root / "etc/containerd/config.toml",
            '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n',
        )
        self.loaded(DRIVER)
        self.modules("nvidia", "nvidia_uvm", "nvidia_modeset")
        self.majors(**{"nvidia-frontend": 195, "nvidia-uvm": UVM_MAJOR})
        for address in ("0000:01:00.0", "0000:02:00.0"):
            self.on_bus(address, "nvidia")
        self.make_process(1, "systemd", "/init.scope")
        plugins = self.kubelet.kubelet_path / "device-plugins"
        self.write(plugins / "nvidia-gpu.sock", "")
        self.checkpoint()

    def loaded(self, version: str) -> None:
        """Set the version of the driver that Linux has loaded, "" for none."""
        path = self.proc / "driver/nvidia/version"
        path.unlink(missing_ok=True)
        if version:
            told = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release\n"
            self.write(path, told)

    def modules(self, *names: str) -> None:
        """Set /proc/modules."""
        lines = [f"{name} 65536 2 - Live 0x0000000000000000\n" for name in ("ext4", *names)]
        self.write(self.proc / "modules", "".join(lines))

    def majors(self, **numbers: int) -> None:
        """Set /proc/devices."""
        lines = "".join(f"{number:3} {name}\n" for name, number in numbers.items())
        self.write(self.proc / "devices", f"Character devices:\n  1 mem\n{lines}\nBlock devices:\n")

    def on_bus(self, address: str, driver: str) -> None:
        """Put a GPU on the bus, bound to a driver."""
        folder = self.sys / "bus/pci/devices" / address
        self.write(folder / "vendor", "0x10de\n")
        self.write(folder / "class", "0x030200\n")
        (folder / "driver").unlink(missing_ok=True)
        if driver:
            (folder / "driver").symlink_to(f"../../drivers/{driver}")

    def checkpoint(self, *holders: str) -> None:
        """Write the kubelet's checkpoint: pods by UID that hold a device."""
        entries = [
            {"PodUID": uid, "ContainerName": "main", "ResourceName": GPU, "DeviceIDs": {"0": ["x"]}}
            for uid in (pod_uid(WANTED), *holders)
        ]
        held = {"PodDeviceEntries": entries, "RegisteredDevices": {GPU: [GPU_A, GPU_B]}}
        path = self.kubelet.kubelet_path / "device-plugins/kubelet_internal_checkpoint"
        self.write(path, json.dumps({"Data": held, "Checksum": 1}))

    def make_process(self, pid: int, name: str, cgroup: str, *, state: str = "S") -> Path:
        """Make /proc/PID."""
        base = self.proc / str(pid)
        self.write(base / "stat", f"{pid} ({name}) {state} 1 " + " ".join(["0"] * 48))
        self.write(base / "cgroup", f"0::{cgroup}\n")
        return base

    def make_container(
        self, pid: int, container: str = "main", pod: str = WANTED, gpus: int = 1
    ) -> Path:
        """Make the process of a container with GPUs; return its /proc/PID."""
        uid = pod_uid(pod)
        where = f"/kubepods/burstable/pod{uid}/{container_id(f'{pod}/{container}')}"
        base = self.make_process(pid, "python3", where)
        self.write(base / "environ", b"HOME=/root\0API_TOKEN=hunter2\0NVIDIA_VISIBLE_DEVICES=void")
        self.maps(base, f"/{LIBRARY}/libcuda.so.{DRIVER}", self.library)
        self.make_devices(base / "root/dev", gpus)
        (base / "root/dev/shm").mkdir()
        self.write(base / "root" / LIBRARY / f"libcuda.so.{DRIVER}", "\x7fELF host")
        return base

    def maps(self, base: Path, path: str, file: Path | None = None) -> None:
        """Set what a process maps: a path as it sees it, and which file that is."""
        named = mapped_file_id(str(file)) if file else None
        major, minor, inode = (
            (named.device_major, named.device_minor, named.inode) if named else (0, 99, 424_243)
        )
        line = f"7f0000000000-7f0000100000 r-xp 00000000 {major:02x}:{minor:02x} {inode} {path}\n"
        self.write(base / "maps", line if path else "")

    @property
    def main(self) -> Path:
        """The main container's /proc/PID."""
        return self.proc / str(PID)

    def no_devices_inside(self) -> None:
        """Take NVIDIA's files and libraries from the main container."""
        for path in (self.main / "root/dev").glob("nvidia*"):
            path.unlink()
        shutil.rmtree(self.main / "root/usr")
        self.maps(self.main, "")
        self.processes = []

    def environment(self, **names: str) -> None:
        """Set the main container's environment, a secret beside it."""
        pairs = [f"{name}={value}" for name, value in {"API_TOKEN": "hunter2", **names}.items()]
        self.write(self.main / "environ", "\0".join(pairs))

    def pending(self, message: str, event: bool = True) -> None:
        """Leave the pod without a node, for a reason of the scheduler's."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "message": message}  # fmt: skip
        assert self.pod is not None
        self.pod["spec"]["nodeName"] = ""
        self.pod["status"] = {"phase": "Pending", "conditions": [condition]}
        if event:
            self.events.append(objects.event("FailedScheduling", message))
        self.kubelet.given = []
        self.processes = []

    def not_started(self, reason: str, message: str = "", event: str = "") -> None:
        """Leave the main container waiting."""
        assert self.pod is not None
        self.pod["status"]["phase"] = "Pending"
        self.pod["status"]["containerStatuses"] = [objects.waiting("main", reason, message)]
        if event:
            self.events.append(objects.event("FailedCreatePodSandBox", event))
        shutil.rmtree(self.main)
        self.processes = []
        self.devices = [replace(one, processes=()) for one in self.devices]

    # -- the walk

    def sources(self, **changes: Any) -> Sources:
        """Return the sources, as a command on the node has them."""
        kubeconfig = self.server.kubeconfig(self.folder)

        def inventory() -> Inventory:
            if self.nvml_error:
                return Inventory((), "", "", error=self.nvml_error)
            return Inventory(tuple(self.devices), DRIVER, "13.0")

        def newest() -> Any:
            if self.agent_error:
                raise UnavailableError(self.agent_error)
            return snapshot(processes=tuple(self.processes))

        def statvfs(_: str) -> Any:
            total, used = self.shm
            return SimpleNamespace(f_blocks=total, f_frsize=1, f_bfree=total - used)

        given = {
            "connect": lambda: ApiServer(kubeconfig=str(kubeconfig), read_seconds=2.0),
            "places": Places(
                root=str(self.root),
                proc=str(self.proc),
                sys=str(self.sys),
                cgroup=str(self.sys / "fs/cgroup"),
                kubelet=str(self.kubelet.kubelet_path),
                boot_unix_ns=BOOT_UNIX_NS,
                statvfs=statvfs,
            ),
            "node_name": NODE,
            "inventory": inventory,
            "snapshot": newest,
        }
        return Sources(**(given | changes))

    def evidence(self, wanted: str = WANTED, **changes: Any) -> Evidence:
        """Gather, at a fixed time."""
        self._publish()
        found = look(wanted, self.sources(**changes))
        return replace(found, now_unix_ns=NOW_UNIX_NS, now_monotonic_ns=NOW_MONOTONIC_NS)

    def explain(self, wanted: str = WANTED, **changes: Any) -> Report:
        """Gather and walk."""
        return walk(self.evidence(wanted, **changes))

    def _publish(self) -> None:
        self.server.objects = {}
        self.server.tokens = {TOKEN}
        for path, one in (
            *((PODS, pod) for pod in (self.pod, *self.others) if pod),
            *((NODES, node) for node in (self.node,) if node),
            *((EVENTS, event) for event in self.events),
            *self.more,
        ):
            self.server.put(path, one)
        lines = [f"6,{n},{seconds * 1_000_000},-;{t}\n" for n, (seconds, t) in enumerate(self.log)]
        self.write(self.root / "dev/kmsg", "".join(lines))
