"""From what the kubelet gave out to who is entitled to which GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpugauge.attribution.allocation import Allocation, Allocations, count_shares
from gpugauge.attribution.device_id import (
    DeviceId,
    hami_devices,
    parse_device_id,
    parse_dra_device,
)
from gpugauge.attribution.pod_view import Pod, PodView
from gpugauge.model.device import Device
from gpugauge.model.snapshot import Entitlement
from gpugauge.model.workload import UNKNOWN, Owner, Scope

NOT_LISTED = "the kubelet names the pod, the API server has not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNames:
    """What else is known of the names of this node's devices."""

    devices: Sequence[Device] = ()
    """What NVML lists."""
    minors: Mapping[int, str] = field(default_factory=dict)
    """UUID by the N of `/dev/nvidiaN`."""
    dra_uuids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """UUID of a DRA device by (driver, `pool/name`)."""

    def uuids(self, device: DeviceId) -> tuple[str, ...]:
        """Return the UUIDs that an id stands for, or (UNKNOWN,)."""
        if device.uuid:
            return (device.uuid,)
        if device.every:
            whole = tuple(one.uuid for one in self.devices if not one.mig_parent_uuid)
            return whole or (UNKNOWN,)
        parent = device.parent_uuid or self.minors.get(-1 if device.minor is None else device.minor)
        if not parent:
            return (UNKNOWN,)
        if not device.slice_of_gpu:
            return (parent,)
        return (self._instance(parent, device),)

    def _instance(self, parent: str, device: DeviceId) -> str:
        found = [
            one.uuid
            for one in self.devices
            if one.mig_parent_uuid == parent
            and device.gpu_instance is not None
            and one.gpu_instance == device.gpu_instance
            and device.compute_instance in (None, one.compute_instance)
        ]
        return found[0] if len(found) == 1 else UNKNOWN


def entitlements(
    allocations: Allocations, view: PodView, names: DeviceNames
) -> tuple[Entitlement, ...]:
    """Join the kubelet's answer with the pods and the devices of the node.

    Pods that ended are left out: kubelets before 1.34 go on listing them, so that
    two pods seemed to hold one GPU. A pod that the API server has not named yet
    is kept, its workload unknown.
    """
    parsed = [(one, _device_id(one)) for one in allocations.devices]
    counted = count_shares([device.base for _, device in parsed if device.replica is not None])
    ended = {(pod.namespace, pod.name) for pod in map(view.by_uid.get, view.ended) if pod}
    found: list[Entitlement] = []
    for one, device in parsed:
        pod = view.by_name.get((one.namespace, one.pod))
        if pod is not None and pod.terminal:
            continue
        if pod is None and (one.namespace, one.pod) in ended:
            continue
        replicas = 0
        if device.replica is not None:
            replicas = max(allocations.shares.get(device.base, 0), counted[device.base])
        owner = _owner(view, pod, one)
        for uuid in _uuids(names, one, device, pod):
            found.append(
                Entitlement(
                    owner=owner,
                    gpu_uuid=uuid,
                    resource=one.resource,
                    device_id=one.device_id,
                    replicas=replicas,
                )
            )
    return tuple(found)


def _device_id(one: Allocation) -> DeviceId:
    if one.claim:
        return parse_dra_device(one.device_id.rpartition("/")[2])
    return parse_device_id(one.device_id)


def _uuids(
    names: DeviceNames, one: Allocation, device: DeviceId, pod: Pod | None
) -> tuple[str, ...]:
    if one.claim and (one.resource, one.device_id) in names.dra_uuids:
        return (names.dra_uuids[one.resource, one.device_id],)
    found = names.uuids(device)
    if found == (UNKNOWN,) and pod is not None and pod.hami_devices:
        # HAMi's ids mean nothing outside it; the pod's annotation lists the real devices.
        real = {uuid for container in hami_devices(pod.hami_devices) for uuid in container}
        if len(real) == 1:
            return tuple(real)
    return found


def _owner(view: PodView, pod: Pod | None, one: Allocation) -> Owner:
    if pod is None:
        return Owner(
            scope=Scope.POD,
            namespace=one.namespace,
            pod=one.pod,
            container=one.container,
            workload=UNKNOWN,
            workload_kind=UNKNOWN,
            reason=NOT_LISTED,
            traced=one.namespace not in view.opted_out_namespaces,
        )
    ids = [c.container_id for c in pod.containers if c.name == one.container]
    return view.owner(pod, one.container, ids[0] if ids else "")
