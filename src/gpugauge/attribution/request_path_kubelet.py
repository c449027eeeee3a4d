"""The kubelet, asked once: what it gave, what it could give, and its checkpoint of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpugauge.attribution.allocation import Allocation
from gpugauge.attribution.device_id import ID_LIMIT
from gpugauge.attribution.names import clean
from gpugauge.attribution.podresources import DEVICES_LIMIT, KubeletClient
from gpugauge.errors import ForeignDataError, UnavailableError

CHECKPOINT_LIMIT_BYTES = 16 << 20


class KubeletQuestions(KubeletClient):
    """One look at the kubelet, without a thread."""

    def given(self) -> tuple[Allocation, ...]:
        """Return the devices that containers have.

        Raises:
            UnavailableError: the kubelet does not answer.
        """
        self.poll()
        if self.error and not self.allocations.ready:
            raise UnavailableError(self.error)
        return self.allocations.devices

    def could_give(self) -> tuple[Allocation, ...]:
        """Return the devices it could give, healthy ones only; call `given` before.

        Raises:
            UnavailableError: the kubelet does not answer this.
        """
        from gpugauge.attribution import podresources_messages as messages

        if not self.polls or (self.error and not self.allocations.ready):
            raise UnavailableError(self.error or "the kubelet was not asked yet")
        try:
            answer = self._call(messages, "GetAllocatableResources", "AllocatableResources")
        except Exception as error:  # no answer, or one of any shape
            name = getattr(error, "status", type(error).__name__)
            raise UnavailableError(
                f"the kubelet does not say what it could give ({name})"
            ) from None
        found = [
            Allocation("", "", "", clean(one.resource_name), clean(text, ID_LIMIT))
            for one in answer.devices
            if one.resource_name.startswith(self._resources)
            for text in one.device_ids
        ]
        return tuple(sorted(found[:DEVICES_LIMIT], key=lambda one: (one.resource, one.device_id)))


def checkpoint(data: bytes) -> tuple[dict[str, int], dict[str, str]]:
    """Return devices by resource, and a resource by the UID of each pod that holds some.

    Of the kubelet's device-plugins/kubelet_internal_checkpoint, which is its own affair:
    a file of another form is an error, not an empty answer.

    Raises:
        ForeignDataError: it has another form.
    """
    try:
        plain = json.loads(data[:CHECKPOINT_LIMIT_BYTES])
        held = plain["Data"]
        devices = held.get("RegisteredDevices") or {}
        entries = held.get("PodDeviceEntries") or []
        registered = {clean(k): len(v or ()) for k, v in list(devices.items())[:DEVICES_LIMIT]}
        return registered, _holders(entries)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ForeignDataError(
            f"the kubelet's checkpoint has another form ({type(error).__name__})"
        ) from None


def _holders(entries: list[Mapping[str, Any]]) -> dict[str, str]:
    found = {}
    for one in entries[:DEVICES_LIMIT]:
        uid, resource = clean(one["PodUID"]), clean(one["ResourceName"])
        if uid and one.get("DeviceIDs"):
            found[uid] = resource
    return found
