"""Is the container toolkit set up on the node, and does nothing stand in its way?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.explain.check import broken, check, ok, warning
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import wanted
from gpugauge.explain.report import Answer, Layer


@check(Layer.RUNTIME, 24, node=True)
def handler(e: Evidence) -> Iterator[Answer]:
    """The runtime's configuration has the nvidia runtime that the pod's class names."""
    if e.toolkit is None or e.toolkit.nvidia_handler is None:
        return  # no configuration of containerd or CRI-O lies at a known place
    wants = e.runtime_handler or ""
    if e.toolkit.nvidia_handler:
        if wants == "nvidia" or not e.pod_wanted:
            yield ok("runtime nvidia configured")
        return
    if wants != "nvidia" if e.pod_wanted else e.toolkit.cdi_devices:
        return  # nothing needs it: CDI names devices to any runtime
    if e.pod is not None and any(c.state == "running" for c in e.pod.containers):
        return  # it was started all the same: a configuration was read that we do not know
    found = broken if e.pod_wanted else warning
    yield found(
        f"no runtime named nvidia in {', '.join(e.toolkit.runtime_configs)}",
        "the runtime that RuntimeClass nvidia names, unless CDI alone is used",
        "nvidia-ctk runtime configure --runtime=containerd; systemctl restart containerd",
        case=24,
    )


@check(Layer.RUNTIME, 30, node=True)
def cdi(e: Evidence) -> Iterator[Answer]:
    """Where the toolkit works by CDI, a specification with devices lies on the node."""
    if e.toolkit is None or e.toolkit.toolkit_mode != "cdi":
        return
    if e.toolkit.cdi_devices and any("nvidia" in kind for kind in e.toolkit.cdi_kinds):
        yield ok(f"{e.toolkit.cdi_devices} CDI devices in {e.toolkit.cdi_files[0]}")
        return
    yield broken(
        "the toolkit is in CDI mode, and no specification in /etc/cdi or /var/run/cdi has "
        "NVIDIA's devices",
        "a specification of kind nvidia.com/gpu",
        "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml   # and read what it says",
        case=30,
    )


@check(Layer.RUNTIME, 36)
def selinux(e: Evidence) -> Iterator[Answer]:
    """SELinux has not denied the container NVIDIA's files."""
    if e.log is None or not e.pod_wanted:
        return
    since = wanted(e).started_unix_ns
    for line in reversed(e.log):
        if line.unix_ns >= since and "avc:" in line.text and "denied" in line.text:
            if "nvidia" not in line.text and "xserver_misc_device" not in line.text:
                continue
            yield broken(
                f"SELinux: {line.text}",
                "a policy that lets containers use NVIDIA's devices",
                "ausearch -m avc -ts recent; setsebool -P container_use_devices 1",
                case=36,
            )
            return


@check(Layer.RUNTIME, 46, node=True)
def passed_through(e: Evidence) -> Iterator[Answer]:
    """GPUs bound to vfio-pci are for virtual machines: this node's driver does not see them."""
    bus = (e.driver.pci if e.driver else None) or ()
    passed = [d for d in bus if d.driver == "vfio-pci"]
    if not passed:
        return
    if e.pod_wanted:
        pod = wanted(e)
        if "kata" in pod.runtime_class or "vm" in (e.runtime_handler or ""):
            yield warning(
                f"the pod is isolated by a virtual machine ({pod.runtime_class}); "
                f"{passed[0].address} is bound to vfio-pci",
                "gpugauge inside the guest: nothing of it is seen from the node",
                "run the agent in the guest",
                case=46,
            )
            return
        if len(passed) < len(bus):
            return
    found = broken if len(passed) == len(bus) else warning
    yield found(
        f"{len(passed)} of {len(bus)} GPUs are bound to vfio-pci ({passed[0].address}): "
        "containers cannot have them",
        "GPUs for containers bound to nvidia",
        f"ls -l /sys/bus/pci/devices/{passed[0].address}/driver",
        case=46,
    )


CHECKS = (handler, cdi, selinux, passed_through)
