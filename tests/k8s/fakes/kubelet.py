"""A fake kubelet: PodResources v1 on a real unix socket, by a real gRPC server.

Its messages are encoded here, by the wire format, and not by the code under test:
an error in field numbers cannot cancel out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc


@dataclass
class Given:
    """What a container was given: device ids by resource, and DRA claims."""

    namespace: str
    pod: str
    container: str
    devices: dict[str, list[str]] = field(default_factory=dict)
    claims: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    """(namespace, claim, driver, pool, device)."""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _devices(devices: dict[str, list[str]]) -> list[bytes]:
    made = []
    for resource, ids in devices.items():
        numa = _bytes(3, _bytes(1, _number(1, 1)))
        made.append(_bytes(1, resource) + b"".join(_bytes(2, one) for one in ids) + numa)
    return made


def list_answer(given: Iterable[Given]) -> bytes:
    """Return a ListPodResourcesResponse."""
    pods: dict[tuple[str, str], list[bytes]] = {}
    for one in given:
        container = _bytes(1, one.container)
        container += b"".join(_bytes(2, devices) for devices in _devices(one.devices))
        container += _number(3, 7)  # cpu_ids, which nobody reads
        for namespace, claim, driver, pool, device in one.claims:
            resource = _bytes(1, _bytes(1, f"k8s.{driver}/claim=x-{device}"))
            resource += _bytes(2, driver) + _bytes(3, pool) + _bytes(4, device)
            container += _bytes(5, _bytes(2, claim) + _bytes(3, namespace) + _bytes(4, resource))
        pods.setdefault((one.namespace, one.pod), []).append(container)
    return b"".join(
        _bytes(1, _bytes(1, name) + _bytes(2, namespace) + b"".join(_bytes(3, c) for c in made))
        for (namespace, name), made in pods.items()
    )


class FakeKubelet:
    """Serves what it is told; `kubelet_path` is what the agent is given."""

    def __init__(self, folder: Path) -> None:
        self.kubelet_path = folder
        self.socket = folder / "pod-resources" / "kubelet.sock"
        self.given: list[Given] = []
        self.allocatable: dict[str, list[str]] = {}
        self.fault: str = ""
        """`exhausted`, `silence`, `malformed`, `huge`, `unimplemented` or ""."""
        self.calls: list[str] = []
        self.release = threading.Event()
        self._server: grpc.Server | None = None

    def __enter__(self) -> FakeKubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Make the socket anew and serve."""
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self.release.clear()
        self._server = grpc.server(
            ThreadPoolExecutor(4), options=(("grpc.max_send_message_length", -1),)
        )
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._answer(name))
            for name in ("List", "GetAllocatableResources")
        }
        generic = grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self, *, keep_socket: bool = False) -> None:
        """Stop serving. A real kubelet's socket file stays and refuses connections."""
        self.release.set()
        if self._server is None:
            return
        self._server.stop(0).wait()
        self._server = None
        if keep_socket:
            import socket

            self.socket.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(self.socket))

    def _answer(self, name: str):
        def call(_: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls.append(name)
            if self.fault == "exhausted":
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rate limited")
            if self.fault == "silence":
                while not self.release.is_set() and context.is_active():
                    time.sleep(0.01)
                context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
            if self.fault == "malformed":
                return b"\x0a\xff\xff\xff"
            if self.fault == "huge":
                return _bytes(99, b"x" * (17 << 20))
            if name == "List":
                return list_answer(self.given)
            if self.fault == "unimplemented":
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "too old")
            return b"".join(_bytes(1, devices) for devices in _devices(self.allocatable))

        return call
