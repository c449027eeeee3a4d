"""ResourceClaims and the number of devices in ResourceSlices (dynamic resource allocation)."""

from __future__ import annotations

import msgspec

from gpugauge.attribution import request_path_json as js
from gpugauge.attribution.names import clean
from gpugauge.attribution.request_path import ClaimFacts, SliceFacts
from gpugauge.attribution.resource_slices import decode_slice

_LIMIT = 256


class _Result(msgspec.Struct):
    driver: str = ""
    pool: str = ""
    device: str = ""


class _Devices(msgspec.Struct):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct):
    devices: _Devices | None = None


class _Status(msgspec.Struct):
    allocation: _Allocation | None = None


class _Exactly(msgspec.Struct):
    deviceClassName: str | None = ""


class _Request(msgspec.Struct):
    deviceClassName: str | None = ""
    exactly: _Exactly | None = None


class _Requested(msgspec.Struct):
    requests: list[_Request] | None = None


class _ClaimSpec(msgspec.Struct):
    devices: _Requested | None = None


class _Claim(msgspec.Struct):
    metadata: js.Meta
    spec: _ClaimSpec | None = None
    status: _Status | None = None


class _SliceSpec(msgspec.Struct):
    driver: str = ""
    nodeName: str | None = ""
    devices: list[msgspec.Raw] | None = None


class _Slice(msgspec.Struct):
    spec: _SliceSpec | None = None


def claim(data: bytes | bytearray | msgspec.Raw) -> ClaimFacts:
    """Return what is kept of a ResourceClaim; v1 puts a request below `exactly`."""
    raw = js.decode(data, _Claim)
    allocation = raw.status.allocation if raw.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or ()
    asked = (raw.spec.devices.requests if raw.spec and raw.spec.devices else None) or ()
    return ClaimFacts(
        name=clean(raw.metadata.name, 253),
        uid=clean(raw.metadata.uid),
        device_classes=tuple(
            clean((r.exactly.deviceClassName if r.exactly else r.deviceClassName) or "")
            for r in asked[:_LIMIT]
        ),
        allocated=tuple(clean(f"{r.driver}/{r.pool}/{r.device}", _LIMIT) for r in results[:_LIMIT]),
    )


def resource_slice(data: msgspec.Raw) -> SliceFacts:
    """Return which driver offers how many devices where."""
    spec = js.decode(data, _Slice).spec or _SliceSpec()
    uuids = {name: uuid for (_driver, name), uuid in decode_slice(data)[1].items()}
    devices = len(spec.devices or ())
    return SliceFacts(clean(spec.driver), clean(spec.nodeName, 253), devices, uuids)
