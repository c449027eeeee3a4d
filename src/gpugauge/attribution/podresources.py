"""The kubelet's PodResources v1: which device it gave to which container.

Polled by a thread of its own, at most every ten seconds: newer kubelets limit
the rate, and there is no watch. The socket is dialled anew for each question, as
the kubelet makes a new one when it starts.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpugauge.attribution.allocation import Allocation, Allocations, count_shares
from gpugauge.attribution.device_id import ID_LIMIT, parse_device_id
from gpugauge.attribution.names import clean
from gpugauge.errors import UnavailableError

SOCKET_BELOW_KUBELET = "pod-resources/kubelet.sock"
ANSWER_LIMIT_BYTES = 16 << 20
DEVICES_LIMIT = 16_384
SHARES_EVERY_POLLS = 6
"""How devices are shared changes with the plugin's configuration: asked once a minute."""
RESOURCES = ("nvidia.com/",)
"""Prefixes of resource names that are GPUs; plugins can rename theirs."""
DRA_DRIVERS = ("gpu.nvidia.com",)


def socket_path(kubelet_path: str) -> Path:
    """Return where the kubelet's socket is below its root directory."""
    return Path(kubelet_path, SOCKET_BELOW_KUBELET)


class KubeletClient:
    """Keeps the kubelet's last answer."""

    def __init__(
        self,
        kubelet_path: str = "/var/lib/kubelet",
        *,
        resources: tuple[str, ...] = RESOURCES,
        dra_drivers: tuple[str, ...] = DRA_DRIVERS,
        poll_seconds: float = 10.0,
        deadline_seconds: float = 5.0,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """Take where the kubelet's directory is; its socket lies below.

        Args:
            kubelet_path: The kubelet's root directory.
            resources: Prefixes of the resource names of GPUs.
            dra_drivers: Names of DRA drivers whose devices are GPUs.
            poll_seconds: Time between two questions.
            deadline_seconds: Longest wait for an answer.
            on_change: Called from the polling thread when an answer differs.
        """
        self._socket = socket_path(kubelet_path)
        self._resources = resources
        self._dra_drivers = dra_drivers
        self._poll_seconds = poll_seconds
        self._deadline = deadline_seconds
        self._on_change = on_change
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._polls_since_shares = SHARES_EVERY_POLLS
        self._allocations = Allocations()
        self.error = ""
        """Why the last question had no answer, or "". The answer before it is kept."""
        self.polls = 0
        self.asked_at = float("-inf")
        """When the question was asked whose answer is the last one, by time.monotonic()."""

    @property
    def allocations(self) -> Allocations:
        """The last answer."""
        return self._allocations

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._stop.wait(self._poll_seconds * random.uniform(0.9, 1.1))  # noqa: S311

    def poll(self) -> None:
        """Ask once. Never raises: what went wrong is in `error`."""
        self.polls += 1
        try:
            self._ask()
        except UnavailableError as error:
            self.error = str(error)
        except Exception as error:  # an answer of any shape must not end the thread
            self.error = f"The kubelet's answer could not be read ({type(error).__name__})."

    def _ask(self) -> None:
        # Only here: an agent without Kubernetes does without the memory of these.
        try:
            from gpugauge.attribution import podresources_messages as messages
            from gpugauge.attribution import unary_call as call
        except ImportError:
            raise UnavailableError(
                "The kubelet cannot be asked: h2 or protobuf is not installed.",
                "Install gpugauge[kubernetes].",
            ) from None
        if not self._socket.is_socket():
            raise UnavailableError(
                f"There is no kubelet socket at {self._socket}.",
                "Mount the kubelet's pod-resources directory, or give --kubernetes-kubelet-path.",
            )
        asked_at = time.monotonic()
        try:
            answer = self._call(messages, "List", "ListPodResources")
        except call.TooLargeError:
            raise UnavailableError(
                f"The kubelet's answer exceeds {ANSWER_LIMIT_BYTES >> 20} MiB."
            ) from None
        except call.CallError as error:
            if error.status == "RESOURCE_EXHAUSTED" and self._allocations.ready:
                return  # it limits the rate: the last answer stays right for a while
            raise UnavailableError(
                f"The kubelet does not answer ({error.status}).",
                "It is asked again; the last answer is kept.",
            ) from None
        devices = tuple(self._devices(answer))
        before = self._allocations
        if devices != before.devices or self._polls_since_shares >= SHARES_EVERY_POLLS:
            self._polls_since_shares = 0
            self._take(devices, self._shares(messages, call))
        else:
            self._polls_since_shares += 1
            self._take(devices, before.shares)
        self.asked_at = asked_at

    def _call(self, messages: Any, method: str, stem: str) -> Any:
        from gpugauge.attribution.unary_call import unary_call

        data = unary_call(
            self._socket,
            messages.SERVICE + method,
            messages.MESSAGES[f"{stem}Request"]().SerializeToString(),
            deadline_seconds=self._deadline,
            limit_bytes=ANSWER_LIMIT_BYTES,
        )
        return messages.MESSAGES[f"{stem}Response"].FromString(data)

    def _shares(self, messages: Any, call: Any) -> dict[str, int]:
        try:
            answer = self._call(messages, "GetAllocatableResources", "AllocatableResources")
        except call.CallError:
            return {}  # not before Kubernetes 1.23, or limited: counted from the list instead
        ids = [
            parse_device_id(text)
            for devices in answer.devices
            if devices.resource_name.startswith(self._resources)
            for text in devices.device_ids[:DEVICES_LIMIT]
        ]
        return count_shares([one.base for one in ids if one.replica is not None])

    def _take(self, devices: tuple[Allocation, ...], shares: Mapping[str, int]) -> None:
        before = self._allocations
        self.error = ""
        if len(devices) == DEVICES_LIMIT:
            self.error = (
                f"The kubelet lists more than {DEVICES_LIMIT} devices; the rest is left out."
            )
        if before.ready and (devices, shares) == (before.devices, before.shares):
            return
        self._allocations = Allocations(before.version + 1, True, devices, shares)
        if self._on_change is not None:
            self._on_change()

    def _devices(self, answer: Any) -> Iterator[Allocation]:
        left = DEVICES_LIMIT
        # The kubelet promises no order: sorted, so that equal answers compare equal.
        for pod in sorted(answer.pod_resources, key=lambda one: (one.namespace, one.name)):
            for container in pod.containers:
                names = (clean(pod.namespace), clean(pod.name, 253), clean(container.name))
                for resource, device_id, claim in sorted(self._of_container(container)):
                    left -= 1
                    if left < 0:
                        return
                    yield Allocation(*names, resource, device_id, claim)

    def _of_container(self, container: Any) -> Iterator[tuple[str, str, str]]:
        for devices in container.devices:
            if devices.resource_name.startswith(self._resources):
                for text in devices.device_ids:
                    yield clean(devices.resource_name), clean(text, ID_LIMIT), ""
        for dynamic in container.dynamic_resources:
            claim = clean(f"{dynamic.claim_namespace}/{dynamic.claim_name}", ID_LIMIT)
            for device in dynamic.claim_resources:
                if device.driver_name in self._dra_drivers:
                    name = clean(f"{device.pool_name}/{device.device_name}", ID_LIMIT)
                    yield clean(device.driver_name), name, claim
