"""Objects as typed clients of Kubernetes send them: protobuf, of the few kinds that are made so.

Field numbers are of k8s.io/api/core/v1/generated.proto and apimachinery's meta/v1 and runtime.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from tests.k8s.fakes.api_server import Object

MAGIC = b"k8s\0"


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that have a length, by number."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        size = number()
        if key & 7 == 2:
            yield key >> 3, data[at : at + size]
            at += size


def texts(data: bytes, number: int) -> dict[str, str]:
    """Return a map of texts."""
    return {key: value.decode() for key, value in pairs(data, number).items()}


def pairs(data: bytes, number: int) -> dict[str, bytes]:
    """Return a map of bytes."""
    entries = [dict(fields(entry)) for each, entry in fields(data) if each == number]
    return {entry[1].decode(): entry.get(2, b"") for entry in entries}


def decode(data: bytes) -> Object:
    """Return what a client sent, as far as a ConfigMap, a Secret or a Namespace needs it.

    Raises:
        ValueError: It is another kind.
    """
    unknown = dict(fields(data.removeprefix(MAGIC)))
    kind = dict(fields(unknown[1]))[2].decode()
    if kind not in {"Secret", "ConfigMap", "Namespace"}:
        raise ValueError(f"a {kind} in protobuf is not understood")
    raw = unknown[2]
    meta = dict(fields(raw))[1]
    named = dict(fields(meta))
    found: Object = {
        "metadata": {
            "name": named[1].decode(),
            "labels": texts(meta, 11),
            "annotations": texts(meta, 12),
        }
    }
    if kind == "Secret":
        found["data"] = {k: base64.b64encode(v).decode() for k, v in pairs(raw, 2).items()}
        found["type"] = dict(fields(raw)).get(3, b"Opaque").decode()
    if kind == "ConfigMap":
        found["data"] = texts(raw, 2)
    return found
