"""Is the driver loaded, of one version, with its device files, and does NVML answer?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpugauge.explain.check import NotSeenError, broken, check, need, ok, warning
from gpugauge.explain.checks.start import DIFFER
from gpugauge.explain.evidence import DriverFacts, Evidence
from gpugauge.explain.facts import errors, given_uuids, in_question, messages, pod_processes
from gpugauge.explain.report import Answer, Layer
from gpugauge.model.workload import UNKNOWN

_SWITCH = re.compile(r"nvidia-nvswitch[0-9]{1,3}")
"""A switch itself: nvidia-nvswitchctl is there without any."""
SYSTEM_NOT_READY = 802
"""cuda.h: CUDA_ERROR_SYSTEM_NOT_READY."""
_VERSION_STEP = (
    "drain and reboot the node (or reload the nvidia modules); cat /proc/driver/nvidia/version"
)


def _driver(e: Evidence) -> DriverFacts:
    in_question(e)
    return need(e.driver, e, "driver")


@check(Layer.DRIVER, 40, node=True)
def nouveau(e: Evidence) -> Iterator[Answer]:
    """The GPUs are not taken by nouveau."""
    facts = _driver(e)
    bound = [d.address for d in facts.pci or () if d.driver == "nouveau"]
    if bound or "nouveau" in (facts.modules or ()):
        yield broken(
            "nouveau is loaded" + (f" and bound to {bound[0]}" if bound else ""),
            "the module nvidia, and nouveau on the deny list",
            "echo blacklist nouveau > /etc/modprobe.d/nouveau.conf; update-initramfs -u; reboot",
            case=40,
        )


@check(Layer.DRIVER, node=True)
def loaded(e: Evidence) -> Iterator[Answer]:
    """Linux has the NVIDIA driver loaded."""
    facts = _driver(e)
    if facts.loaded_version:
        yield ok(f"{facts.loaded_version} loaded")
        return
    if e.inventory is not None and e.inventory.devices and not e.inventory.error:
        raise NotSeenError("/proc/driver/nvidia is not there, though NVML answers")
    if facts.pci == ():
        found = broken if e.pod_wanted else warning
        yield found(
            "no NVIDIA GPU is on the PCI bus of this node",
            "a GPU",
            "lspci -d 10de:",
        )
        return
    if any(d.driver == "vfio-pci" for d in facts.pci or ()):
        raise NotSeenError("its GPUs are passed to virtual machines")
    yield broken(
        "/proc/driver/nvidia/version is not there: the driver is not loaded",
        "the module nvidia",
        "modprobe nvidia; dmesg | grep -i nvrm",
    )


@check(Layer.DRIVER, 26, node=True)
def versions(e: Evidence) -> Iterator[Answer]:
    """The driver's libraries are of the version that Linux has loaded."""
    facts = _driver(e)
    told = next((text for text in messages(e) if DIFFER.search(text)), "")
    nvml = e.inventory.error if e.inventory else ""
    others = [v for v in facts.library_versions or () if v and v != facts.loaded_version]
    same = facts.loaded_version in (facts.library_versions or ())
    if (facts.loaded_version and others and not same) or told or "differ in version" in nvml:
        libraries = f"the library is {others[0]}" if others else told or nvml
        yield broken(
            f"Linux has {facts.loaded_version or 'no version'} loaded, {libraries}",
            "driver and library of one version (NVML answers 18 otherwise)",
            _VERSION_STEP,
            case=26,
        )
    elif facts.loaded_version and same:
        yield ok("libcuda of the same version")
    elif facts.loaded_version and facts.library_versions == ():
        yield warning(
            "no libcuda of the host was found where it usually lies",
            "libcuda.so.1 below a driver root",
            "give --attach-driver-roots",
        )


@check(Layer.DRIVER, 33, node=True)
def device_files_of_node(e: Evidence) -> Iterator[Answer]:
    """The node's own device files are there, and nvidia-uvm has the right number."""
    facts = _driver(e)
    if not facts.loaded_version:
        return  # told by `loaded`
    names = {d.name: d for d in need(facts.devices, e, "driver")}
    if "nvidiactl" not in names:
        yield broken(
            "/dev/nvidiactl is not there",
            "/dev/nvidiactl and /dev/nvidiaN on the node",
            "nvidia-modprobe; nvidia-smi   # either makes them",
        )
        return
    majors = facts.majors
    uvm = names.get("nvidia-uvm")
    if majors is not None and "nvidia-uvm" not in majors:
        proof = "the module nvidia_uvm is not loaded (no nvidia-uvm in /proc/devices)"
    elif uvm is None:
        proof = "/dev/nvidia-uvm is not there"
    elif majors is not None and uvm.major != majors["nvidia-uvm"]:
        proof = f"/dev/nvidia-uvm has major {uvm.major}, Linux uses {majors['nvidia-uvm']}"
    else:
        yield ok("device files there")
        return
    yield broken(
        f"{proof}: CUDA answers 100 or 999 though nvidia-smi works",
        "nvidia_uvm loaded and /dev/nvidia-uvm with its major",
        "modprobe nvidia-uvm; nvidia-modprobe -u -c=0",
        case=33,
    )


@check(Layer.DRIVER, 37, node=True)
def nvml(e: Evidence) -> Iterator[Answer]:
    """NVML answers, and lists every device in question."""
    _driver(e)
    inventory = need(e.inventory, e, "inventory")
    if inventory.error:
        if "was not found" in inventory.error or "not loaded" in inventory.error:
            raise NotSeenError(inventory.error)
        if "differ in version" not in inventory.error:  # told by `versions`
            yield broken(inventory.error, "NVML answers", "nvidia-smi; dmesg | grep -i -e nvrm")
        return
    lost = [d.index for d in inventory.devices if d.uuid == UNKNOWN]
    known = {d.uuid for d in inventory.devices}
    if e.pod_wanted and e.allocations is not None:
        gone = sorted(given_uuids(e) - known)
        if gone:
            yield broken(
                f"NVML does not list {gone[0]}, which the pod was given",
                "every device that was given answers",
                "dmesg | grep -e Xid -e 'fallen off'; nvidia-smi -L",
                case=37,
            )
            return
    if lost:
        found = warning if e.pod_wanted else broken
        yield found(
            f"NVML gives no handle for GPU {lost[0]}: it is lost",
            "every GPU answers",
            "dmesg | grep -e Xid -e 'fallen off'; power-cycle the node",
            case=37,
        )
        return
    yield ok(f"NVML lists {len(inventory.devices)} devices")


@check(Layer.DRIVER, 41, node=True)
def fabric_manager(e: Evidence) -> Iterator[Answer]:
    """On a node with NVSwitch the fabric manager runs."""
    facts = _driver(e)
    switches = [d.name for d in facts.devices or () if _SWITCH.fullmatch(d.name)]
    not_ready = errors(pod_processes(e)).get(SYSTEM_NOT_READY, 0)
    if not switches and not not_ready:
        return
    services = need(e.services, e, "services")
    if services.fabric_manager and not not_ready:
        yield ok("nv-fabricmanager runs")
        return
    proofs = [f"{not_ready} CUDA calls answered 802"] if not_ready else []
    proofs += [f"the node has {len(switches)} NVSwitch files"] if switches else []
    runs = "nv-fabricmanager runs" if services.fabric_manager else "no nv-fabricmanager runs"
    yield broken(
        "; ".join([*proofs, runs]),
        "nv-fabricmanager of the driver's own version",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric",
        case=41,
    )


CHECKS = (nouveau, loaded, versions, device_files_of_node, nvml, fabric_manager)
