"""What does the container have of the GPU: device files, libraries, and rules?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.device_id import parse_device_id
from gpugauge.attribution.request_path import ContainerRequest
from gpugauge.explain.check import NotSeenError, broken, check, need, ok, warning
from gpugauge.explain.evidence import WSL_FILE, ContainerSeen, Evidence
from gpugauge.explain.facts import (
    asking,
    containers_that_ask,
    errors,
    given,
    gpu_files,
    pod_devices,
    pod_processes,
    running,
    wanted,
)
from gpugauge.explain.report import Answer, Layer

GPU_MAJOR = 195
"""Of /dev/nvidia0 and nvidiactl, on Linux (Documentation/admin-guide/devices.txt)."""
_PICTURES = {"graphics", "display", "video"}
"""Capabilities that do without libcuda."""
CONSUMER = ("GeForce", "TITAN", "Quadro RTX")
"""Products for which NVIDIA's forward compatibility is not made."""


def _asking_and_running(
    e: Evidence,
) -> Iterator[tuple[ContainerRequest, ContainerSeen]]:
    pod = asking(e)
    names = {c.name for c in containers_that_ask(pod)}
    yield from ((told, seen) for told, seen in running(e) if told.name in names)


def host_lacks(e: Evidence, name: str = "nvidiactl") -> bool:
    """Return whether the host itself has no such device file: then the driver is to blame."""
    if e.driver is None or e.driver.devices is None:
        return False
    return not any(d.name == name for d in e.driver.devices)


@check(Layer.RUNTIME, 32)
def device_files(e: Evidence) -> Iterator[Answer]:
    """The container has nvidiactl and the files of its GPUs below its /dev."""
    for told, seen in _asking_and_running(e):
        found = need(seen.devices, e, "containers")
        files = gpu_files(found)
        if any(d.name == WSL_FILE for d in found):
            yield ok(f"{told.name} has /dev/{WSL_FILE}")
            continue
        if any(d.name == "nvidiactl" for d in found) and files:
            yield ok(f"{told.name} has /dev/{', '.join(files[:8])}")
            continue
        if host_lacks(e):
            raise NotSeenError("the node itself has no /dev/nvidiactl; see driver")
        default = e.toolkit.nvidia_default if e.toolkit else None
        pod = wanted(e)
        lacks = not pod.runtime_class and default is not True
        yield broken(
            f"container {told.name} has no NVIDIA device below its /dev"
            + ("; the pod has no runtimeClassName" if lacks else ""),
            "/dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidiaN inside the container",
            f"kubectl -n {pod.namespace} exec {pod.name} -c {told.name} -- ls -l /dev"
            + ("; then set spec.runtimeClassName: nvidia" if lacks else ""),
            case=32 if lacks else 0,
        )


@check(Layer.RUNTIME, 33)
def uvm_file(e: Evidence) -> Iterator[Answer]:
    """The container's /dev/nvidia-uvm is there, with the major number that Linux uses."""
    for told, seen in _asking_and_running(e):
        found = need(seen.devices, e, "containers")
        if not gpu_files(found) or host_lacks(e, "nvidia-uvm"):
            continue  # told by `device files`, or by the driver's checks
        inside = next((d for d in found if d.name == "nvidia-uvm"), None)
        major = (e.driver.majors or {}).get("nvidia-uvm") if e.driver else None
        if inside is None:
            proof = f"container {told.name} has no /dev/nvidia-uvm"
        elif major is not None and inside.major != major:
            proof = (
                f"container {told.name}: /dev/nvidia-uvm has major {inside.major}, "
                f"Linux uses {major}"
            )
        else:
            continue
        pod = wanted(e)
        yield broken(
            f"{proof}: CUDA answers 100 or 999 though nvidia-smi works",
            "/dev/nvidia-uvm with the major of /proc/devices",
            f"nvidia-modprobe -u -c=0 on the node; kubectl -n {pod.namespace} delete pod "
            f"{pod.name}",
            case=33,
        )


@check(Layer.RUNTIME, 31)
def libcuda(e: Evidence) -> Iterator[Answer]:
    """The container has libcuda, from the host, from a compatibility package or its own."""
    for told, seen in _asking_and_running(e):
        if seen.mapped:
            one = seen.mapped[0]
            yield ok(f"{told.name} maps {one.path} ({one.origin} {one.version})".rstrip())
            continue
        libraries = need(seen.libraries, e, "containers")
        if libraries:
            yield ok(f"{told.name} has {libraries[0]}, not mapped yet")
            continue
        if not gpu_files(seen.devices or ()):
            continue  # told by `device files`
        names = seen.environment or {}
        given_text = names.get("NVIDIA_DRIVER_CAPABILITIES", "")
        wanted_ones = {part.strip() for part in given_text.split(",")}
        lacks = bool(given_text) and not wanted_ones & {"compute", "all"}
        found = warning if wanted_ones & _PICTURES else broken
        yield found(
            f"container {told.name} has no libcuda.so.1"
            + (f"; NVIDIA_DRIVER_CAPABILITIES={given_text}" if lacks else ""),
            "libcuda.so.1 from the host: NVIDIA_DRIVER_CAPABILITIES with compute",
            "set NVIDIA_DRIVER_CAPABILITIES=compute,utility in the container"
            if lacks
            else "nvidia-container-cli list | grep libcuda   # on the node",
            case=31 if lacks else 0,
        )


@check(Layer.RUNTIME, 26, 28)
def library_version(e: Evidence) -> Iterator[Answer]:
    """A libcuda of the image fits the loaded driver and the hardware."""
    loaded = e.driver.loaded_version if e.driver else ""
    models = [d.model for d in pod_devices(e)] or [
        d.model for d in (e.inventory.devices if e.inventory else ())
    ]
    for told, seen in _asking_and_running(e):
        for one in seen.mapped or ():
            consumer = next((m for m in models if any(word in m for word in CONSUMER)), "")
            if one.origin == "compat" and consumer:
                yield broken(
                    f"container {told.name} maps {one.path} on {consumer}: CUDA answers 804",
                    "the host's libcuda; forward compatibility is for data-centre GPUs",
                    "take the compat folder out of LD_LIBRARY_PATH or the image",
                    case=28,
                )
            elif one.origin == "own" and one.version and loaded and one.version != loaded:
                yield broken(
                    f"container {told.name} maps its own {one.path} of {one.version}, "
                    f"Linux has {loaded} loaded",
                    "the host's libcuda, or one of the same version",
                    "take libcuda out of the image: the runtime brings the host's",
                    case=26,
                )


@check(Layer.RUNTIME, 34, 35)
def visible(e: Evidence) -> Iterator[Answer]:
    """The container sees what it was given, and no other GPU."""
    pod = wanted(e)
    names = {c.name for c in containers_that_ask(pod)}
    for told, seen in running(e):
        files = gpu_files(seen.devices or ())
        if not files:
            continue
        if told.privileged:
            yield warning(
                f"container {told.name} is privileged: it sees {len(files)} GPUs whatever it "
                "asked for",
                "no privileged containers beside shared GPUs",
                "drop securityContext.privileged",
                case=35,
            )
        elif told.name not in names and not told.host_devices:
            value = (seen.environment or {}).get("NVIDIA_VISIBLE_DEVICES", "")
            by = f" (NVIDIA_VISIBLE_DEVICES={value})" if value else ""
            yield warning(
                f"container {told.name} asked for no GPU and sees {len(files)}{by}",
                "only containers that ask see GPUs",
                "set accept-nvidia-visible-devices-envvar-when-unprivileged = false in the "
                "toolkit's config.toml, with CDI or volume mounts",
                case=34,
            )
        elif told.name in names and e.allocations is not None:
            ids = {parse_device_id(i).base for i in given(e)}
            if len(files) > len(ids) > 0 and not any(i.startswith("MIG-") for i in ids):
                yield warning(
                    f"container {told.name} sees {len(files)} GPUs and was given {len(ids)}",
                    "only the devices it was given",
                    "look for NVIDIA_VISIBLE_DEVICES=all in the image or the pod",
                    case=34,
                )


@check(Layer.RUNTIME, 25)
def device_rules(e: Evidence) -> Iterator[Answer]:
    """The container's cgroup still allows NVIDIA's devices; daemon-reload can take that away."""
    lost = errors(pod_processes(e))
    for told, seen in _asking_and_running(e):
        if not gpu_files(seen.devices or ()):
            continue
        step = (
            "delete the pod; then CDI, or nvidia-ctk system create-dev-char-symlinks "
            "--create-all on the node"
        )
        expected = "a device rule c 195:* in the container's cgroup"
        if seen.device_rules is not None:
            if not any(_allows(rule) for rule in seen.device_rules):
                yield broken(
                    f"the cgroup of {told.name} allows no device of major {GPU_MAJOR} any more: "
                    "NVML and CUDA answer 999",
                    expected,
                    step,
                    case=25,
                )
        elif e.driver and e.driver.char_links is False and lost.get(999, 0):
            yield broken(
                f"{lost[999]} CUDA calls answered 999, and /dev/char has no links to NVIDIA's "
                "files: a daemon-reload may have taken the device rule",
                expected,
                step,
                case=25,
                guess=True,
            )


def _allows(rule: str) -> bool:
    kind, _, rest = rule.partition(" ")
    major = rest.partition(":")[0]
    return kind == "a" or (kind == "c" and major in ("*", str(GPU_MAJOR)))


CHECKS = (device_files, uvm_file, libcuda, library_version, visible, device_rules)
