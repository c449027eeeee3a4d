"""The door of this package: everything that the agent asks about owners."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpugauge.attribution.allocation import Allocations
from gpugauge.attribution.cgroup_tree import CgroupTree, host_cgroup_root, unified_root
from gpugauge.attribution.cluster import find_cluster
from gpugauge.attribution.driver_minors import driver_minors
from gpugauge.attribution.entitlement import DeviceNames, entitlements
from gpugauge.attribution.gaps import EntitlementGaps
from gpugauge.attribution.host_context import HostContexts
from gpugauge.attribution.pod_store import PodStore
from gpugauge.attribution.pod_view import Pod
from gpugauge.attribution.podresources import DRA_DRIVERS, RESOURCES, KubeletClient
from gpugauge.attribution.resolver import NOT_LISTED, Resolver
from gpugauge.model.device import Device
from gpugauge.model.process import Process
from gpugauge.model.snapshot import Entitlement, EntitlementGap, HostContext
from gpugauge.model.workload import Owner

if TYPE_CHECKING:
    from gpugauge.attribution.pods import PodWatch
    from gpugauge.attribution.resource_slices import ResourceSlices
    from gpugauge.attribution.watch_limits import WatchLimits

UNLISTED_SECONDS = 20.0
"""A container that the list does not name for this long: the watch may be dead."""
REFRESH_AT_MOST_EVERY_SECONDS = 120.0
WALK_EVERY_SECONDS = 10.0
"""The cgroup tree is walked this often, so that what ended meanwhile is still known."""

COMPARE_EVERY_SECONDS = 2.0
"""Entitlement is compared with use this often."""


class Attribution:
    """Owners of processes, entitlements and host contexts.

    All methods are for one thread, the agent's tick, except where said otherwise.
    """

    def __init__(
        self,
        *,
        node_name: str = "",
        enabled: bool | None = None,
        kubeconfig: str = "",
        service_account: str = "",
        kubelet_path: str = "/var/lib/kubelet",
        cgroup_root: str = "",
        proc: str = "/proc",
        gpu_resources: Sequence[str] = RESOURCES,
        dra_drivers: Sequence[str] = DRA_DRIVERS,
        kubelet_poll_seconds: float = 10.0,
        watch_limits: WatchLimits | None = None,
    ) -> None:
        """Take where things are; nothing is opened before `start`.

        Args:
            node_name: As in `spec.nodeName`; "" for $NODE_NAME, else the host's name.
            enabled: Whether to ask Kubernetes. None: where there is a way to it, a kubeconfig
                given here, a service account or a kubelet's socket.
            kubeconfig: Path of a kubeconfig; "" for the pod's service account.
            service_account: Directory of the account's token; "" for the usual one.
            kubelet_path: The kubelet's root directory.
            cgroup_root: Where the host's cgroup trees are; "" to find out.
            proc: Where the host's procfs is.
            gpu_resources: Prefixes of resource names that are GPUs.
            dra_drivers: Names of DRA drivers whose devices are GPUs.
            kubelet_poll_seconds: Time between two questions to the kubelet.
            watch_limits: Times and bounds of the watches.
        """
        self.cluster = find_cluster(
            node_name=node_name,
            enabled=enabled,
            kubeconfig=kubeconfig,
            service_account=service_account,
            kubelet_path=kubelet_path,
        )
        """How the API server is reached."""
        self.kubernetes = self.cluster.asked
        """Whether pods are watched."""
        self._limits = watch_limits
        self._proc = proc
        root = cgroup_root or host_cgroup_root(proc)
        self._store = PodStore()
        self._tree = CgroupTree(unified_root(root))
        self._contexts = HostContexts(root, proc=proc)
        self._resolver = Resolver(
            self._store.view, self._tree, kubernetes=self.kubernetes, proc=proc
        )
        self._kubelet = KubeletClient(
            kubelet_path,
            resources=tuple(gpu_resources),
            dra_drivers=tuple(dra_drivers),
            poll_seconds=kubelet_poll_seconds,
            on_change=self._changed,
        )
        self._pods: PodWatch | None = None
        self._slices: ResourceSlices | None = None
        self._slices_started = False
        self._gaps = EntitlementGaps()
        self._compared: tuple[float, tuple[EntitlementGap, ...]] = (float("-inf"), ())
        self._changes = 0
        self._lock = threading.Lock()
        self._entitled: tuple[object, tuple[Entitlement, ...]] = (None, ())
        self._walked_at = self._refreshed_at = float("-inf")

    def start(self) -> None:
        """Start to watch; returns at once, whether or not anything answers."""
        self._tree.step()
        if not self.kubernetes:
            return
        from gpugauge.attribution.pods import PodWatch
        from gpugauge.attribution.resource_slices import ResourceSlices

        node, connect = self.cluster.node_name, self.cluster.connect
        self._pods = PodWatch(self._store, node, connect, limits=self._limits)
        self._slices = ResourceSlices(node, connect, limits=self._limits, on_change=self._changed)
        self._pods.start()
        self._kubelet.start()

    def stop(self) -> None:
        """End all threads and connections."""
        if self._pods is not None:
            self._pods.stop()
        if self._slices is not None and self._slices_started:
            self._slices.reflector.stop()
        self._kubelet.stop()
        self._contexts.close()

    def owner(self, pid: int, start_time: int = 0, cgroup_id: int = 0) -> Owner:
        """Return whose process `pid` is; cheap enough to ask for each process at each tick.

        The answer changes when more is known: a container gets its pod's name once
        the API server has told it.

        Args:
            pid: In the agent's pid namespace, which is the host's.
            start_time: Clock ticks since boot (field 22 of stat), against reuse of the
                pid; 0 where not known.
            cgroup_id: As BPF noted it, for a process that is gone; 0 where not known.
        """
        self._maintain()
        return self._resolver.owner(pid, start_time, cgroup_id)

    def owner_by_cgroup(self, cgroup_id: int) -> Owner:
        """Return whose a cgroup is, by the id that BPF noted."""
        return self._resolver.owner_by_cgroup(cgroup_id)

    def pod(self, uid: str) -> Pod | None:
        """Return a pod that is on this node now, by its UID; None: none is known. Any thread."""
        view = self._store.view()
        pod = view.by_uid.get(uid)
        return None if pod is None or pod.terminal or pod.uid in view.ended else pod

    def entitlements(self, devices: Sequence[Device] = ()) -> tuple[Entitlement, ...]:
        """Return which container the kubelet gave which GPU.

        Args:
            devices: What NVML lists, to name MIG instances of old ids and of GKE's.
        """
        allocations, view = self._kubelet.allocations, self._store.view()
        self._start_slices(allocations)
        uuids = self._slices.uuids if self._slices is not None else {}
        key = (allocations.version, view.version, uuids, tuple(one.uuid for one in devices))
        if self._entitled[0] != key:
            names = DeviceNames(
                devices=devices,
                minors=driver_minors(self._proc) if allocations.devices else {},
                dra_uuids=uuids,
            )
            self._entitled = (key, entitlements(allocations, view, names))
        return self._entitled[1]

    @property
    def entitlements_known(self) -> bool:
        """The kubelet has answered: only then does an absent entitlement mean anything."""
        return self._kubelet.allocations.ready

    def entitlement_gaps(
        self,
        processes: Iterable[Process],
        devices: Sequence[Device],
        entitlements: Sequence[Entitlement],
    ) -> tuple[EntitlementGap, ...]:
        """Return who uses a device without having been given it, and who holds one unused.

        Args:
            processes: Of the snapshot, at each tick: short ones are in few.
            devices: What NVML lists.
            entitlements: As `entitlements` returned them; nothing is said before they are known.
        """
        self._gaps.saw(processes)
        if not self.entitlements_known:
            return ()
        now = time.monotonic()
        if now - self._compared[0] >= COMPARE_EVERY_SECONDS:
            self._gaps.listed(devices, self._resolver.owner)
            parents = {one.uuid: one.mig_parent_uuid for one in devices if one.mig_parent_uuid}
            found = self._gaps.gaps(
                entitlements, asked_at=self._kubelet.asked_at, mig_parents=parents
            )
            self._compared = (now, found)
        return self._compared[1]

    def host_contexts(self, owners: Iterable[Owner]) -> tuple[HostContext, ...]:
        """Return CPU quota, throttling, CPU time and pressure of each owner, in order."""
        return self._contexts.read(self._resolver.paths(), owners)

    @property
    def version(self) -> int:
        """Rises when owners or entitlements may have changed."""
        return self._store.version + self._changes

    @property
    def ready(self) -> bool:
        """The pods were listed, or are not watched at all."""
        return not self.kubernetes or self._store.view().ready

    @property
    def unresolved(self) -> Mapping[str, int]:
        """Processes whose pod is not known, by reason."""
        return self._resolver.unresolved()

    @property
    def watch_age_seconds(self) -> float | None:
        """How long the watch of pods has heard nothing; None where none is, or it never has."""
        heard = self._pods.pods.heard_seconds if self._pods is not None else None
        return None if heard is None else time.monotonic() - heard

    @property
    def errors(self) -> Mapping[str, str]:
        """What does not work now, a sentence by source: empty while all goes well."""
        found = {"kubernetes": self.cluster.missing, "kubelet": self._kubelet.error}
        if self._pods is not None:
            found["node"] = self._doubtful_node()
            found["pods"] = self._pods.pods.error
            found["namespaces"] = self._pods.namespaces.error
            if self._pods.pods.malformed:
                found["malformed"] = f"{self._pods.pods.malformed} pods could not be read."
        if self._slices is not None:
            found["resourceslices"] = self._slices.reflector.error
        if self._store.refused:
            found["refused"] = f"{self._store.refused} pods were more than a node can have."
        return {source: sentence for source, sentence in found.items() if sentence}

    def _doubtful_node(self) -> str:
        # A node that does not exist has no pods, which the API server does not call an error.
        view = self._store.view()
        if not view.ready or view.by_uid or NOT_LISTED not in self._resolver.unresolved():
            return ""
        return (
            f"No pod is bound to node {self.cluster.node_name}, but containers of pods run here. "
            "Give --node-name as `kubectl get nodes` shows it."
        )

    def _changed(self) -> None:
        with self._lock:
            self._changes += 1

    def _start_slices(self, allocations: Allocations) -> None:
        """Not before the kubelet names a claim: most clusters have none, or refuse it."""
        if self._slices is None or self._slices_started:
            return
        if any(one.claim for one in allocations.devices):
            self._slices_started = True
            self._slices.reflector.start()

    def _maintain(self) -> None:
        now = time.monotonic()
        if now - self._walked_at < WALK_EVERY_SECONDS:
            return
        self._walked_at = now
        self._tree.step()
        if self._pods is None or now - self._refreshed_at < REFRESH_AT_MOST_EVERY_SECONDS:
            return
        if self._resolver.oldest_unlisted_seconds() > UNLISTED_SECONDS:
            self._refreshed_at = now
            self._pods.pods.refresh()
