"""The UUIDs of DRA devices: only ResourceSlices hold them.

The kubelet names a device by driver, pool and name. The API is `v1` since
Kubernetes 1.34; before it, attributes stood below `basic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from gpugauge.attribution.api_server import ApiServer
from gpugauge.attribution.device_id import ID_LIMIT, parse_device_id
from gpugauge.attribution.names import clean
from gpugauge.attribution.reflector import Reflector
from gpugauge.attribution.watch_limits import WatchLimits
from gpugauge.errors import ForeignDataError

PATH = "/apis/resource.k8s.io/v1/resourceslices"
OLDER_PATHS = (
    "/apis/resource.k8s.io/v1beta2/resourceslices",
    "/apis/resource.k8s.io/v1beta1/resourceslices",
)
DEVICES_LIMIT = 1_024

DraKey = tuple[str, str]
"""(driver, `pool/name`)."""


class _Attribute(msgspec.Struct):
    string: str | None = None


class _Basic(msgspec.Struct):
    attributes: dict[str, _Attribute] | None = None


class _Device(msgspec.Struct):
    name: str = ""
    attributes: dict[str, _Attribute] | None = None
    basic: _Basic | None = None


class _Pool(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct):
    driver: str = ""
    pool: _Pool | None = None
    devices: list[_Device] | None = None


class _Meta(msgspec.Struct):
    name: str = ""


class _Slice(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_decoder = msgspec.json.Decoder(_Slice)

Slice = tuple[str, dict[DraKey, str]]
"""Name of a ResourceSlice, and the UUIDs it holds."""


def decode_slice(data: bytes | msgspec.Raw) -> Slice:
    """Return the UUIDs that a ResourceSlice holds.

    Raises:
        ForeignDataError: It is not JSON, or not a named ResourceSlice.
    """
    try:
        raw = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForeignDataError(f"A ResourceSlice could not be read: {error}.") from None
    if not raw.metadata.name:
        raise ForeignDataError("A ResourceSlice without a name was sent.")
    pool = raw.spec.pool.name if raw.spec.pool else ""
    found: dict[DraKey, str] = {}
    for device in (raw.spec.devices or ())[:DEVICES_LIMIT]:
        attributes = device.attributes or (device.basic.attributes if device.basic else None) or {}
        # Attributes may be written with their driver's domain before the name.
        uuid = attributes.get("uuid") or attributes.get(f"{raw.spec.driver}/uuid")
        parsed = parse_device_id(uuid.string or "") if uuid else parse_device_id("")
        if parsed.uuid:
            key = clean(raw.spec.driver), clean(f"{pool}/{device.name}", ID_LIMIT)
            found[key] = parsed.uuid
    return clean(raw.metadata.name, 253), found


class ResourceSlices:
    """Keeps the UUIDs of this node's DRA devices."""

    def __init__(
        self,
        node_name: str,
        connect: Callable[[], ApiServer],
        *,
        limits: WatchLimits | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """Watch the slices of `node_name`; nothing is asked before `start`."""
        self._slices: dict[str, dict[DraKey, str]] = {}
        self._on_change = on_change
        self.uuids: Mapping[DraKey, str] = {}
        """UUID by (driver, `pool/name`)."""
        self.reflector = Reflector(
            PATH,
            self,
            connect,
            params={"fieldSelector": f"spec.nodeName={node_name}"},
            limits=limits,
            older_paths=OLDER_PATHS,
        )

    def decode(self, data: msgspec.Raw) -> Slice:
        """Return what is kept of a slice."""
        return decode_slice(data)

    def replace(self, items: list[Slice]) -> None:
        """Take a whole list."""
        self._slices = dict(items)
        self._publish()

    def put(self, item: Slice) -> None:
        """Take a slice that was added or changed."""
        self._slices[item[0]] = item[1]
        self._publish()

    def remove(self, item: Slice) -> None:
        """Take that a slice is gone."""
        self._slices.pop(item[0], None)
        self._publish()

    def _publish(self) -> None:
        self.uuids = {key: uuid for held in self._slices.values() for key, uuid in held.items()}
        if self._on_change is not None:
            self._on_change()
