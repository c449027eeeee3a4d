"""Did the runtime start the containers? What its messages say, each with its case and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpugauge.explain.check import NotSeenError, broken, check, ok
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asking, messages, wanted
from gpugauge.explain.report import Answer, Layer

DIFFER = re.compile(r"driver/library version mismatch", re.IGNORECASE)
"""Told by the driver's checks: the runtime only passes it on."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the runtime or the kubelet, and what it means."""

    pattern: re.Pattern[str]
    case: int
    expected: str
    next_step: str


def _message(pattern: str, case: int, expected: str, next_step: str) -> Message:
    return Message(re.compile(pattern, re.IGNORECASE), case, expected, next_step)


MESSAGES = (
    _message(
        r"no runtime for \\?\"[\w-]+\\?\" is configured",
        24,
        "a runtime named nvidia in containerd's or CRI-O's configuration",
        "nvidia-ctk runtime configure --runtime=containerd; systemctl restart containerd",
    ),
    _message(
        r"RuntimeClass \\?\"?[\w.-]+\\?\"? not found",
        24,
        "the RuntimeClass that the pod names",
        "kubectl get runtimeclasses",
    ),
    _message(
        r"unresolvable CDI devices",
        29,
        "a CDI specification that has these devices in /etc/cdi or /var/run/cdi",
        "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml; nvidia-ctk cdi list",
    ),
    _message(
        r"requirement error: unsatisfied condition|unsatisfied condition: cuda",
        27,
        "a driver as new as the image's NVIDIA_REQUIRE_CUDA asks",
        "take an older CUDA image or a newer driver; NVIDIA_DISABLE_REQUIRE=1 skips the check",
    ),
    _message(
        r"\"?nvidia-smi\"?:? executable file not found|exec: \"nvidia-smi\"",
        32,
        "runtimeClassName: nvidia, or nvidia as the node's default runtime",
        "add spec.runtimeClassName: nvidia; kubectl get runtimeclasses",
    ),
    _message(
        r"libnvidia-ml\.so\.1: cannot open shared object|nvml error: driver not loaded",
        0,
        "the driver's libraries and modules on the node",
        "gpugauge explain --node   # on that node",
    ),
)


def message_of(text: str) -> Message | None:
    """Return what a message means, None for one that is not known."""
    return next((one for one in MESSAGES if one.pattern.search(text)), None)


@check(Layer.RUNTIME, 24, 27, 29, 32)
def start(e: Evidence) -> Iterator[Answer]:
    """The containers were created; else what the runtime said."""
    pod = wanted(e)
    if not pod.node:
        raise NotSeenError(e.why("containers"))
    if pod.phase in ("Succeeded", "Failed"):
        raise NotSeenError(f"it ended ({pod.phase})")
    waiting = [c for c in pod.containers if c.state in ("", "waiting")]
    if not waiting:
        names = [c.name for c in pod.containers if c.state == "running"]
        asking(e)
        yield ok(f"running: {', '.join(names[:4])}")
        return
    for text in reversed(list(messages(e))):
        if DIFFER.search(text):
            raise NotSeenError("the container did not start; see driver")
        known = message_of(text)
        if known:
            yield broken(text, known.expected, known.next_step, case=known.case)
            return
    pulls = [c for c in waiting if "ImagePull" in c.reason or c.reason == "InvalidImageName"]
    if pulls:
        yield broken(
            f"container {pulls[0].name}: {pulls[0].reason}: {pulls[0].message}",
            "an image that can be pulled; this is no matter of GPUs",
            f"kubectl -n {pod.namespace} describe pod {pod.name}",
        )
        return
    odd = [c for c in waiting if c.reason in ("CreateContainerError", "RunContainerError")]
    if odd:
        yield broken(
            f"container {odd[0].name}: {odd[0].reason}: {odd[0].message}",
            "a container that starts",
            f"kubectl -n {pod.namespace} describe pod {pod.name}",
        )
        return
    if any(c.reason == "CrashLoopBackOff" for c in waiting):
        return  # it starts, and ends: told by the process's checks
    names = [f"{c.name} ({c.reason or 'no state yet'})" for c in waiting]
    raise NotSeenError(f"not started yet: {', '.join(names[:4])}")


CHECKS = (start,)
