"""What did the kubelet do with the pod, and which devices did it give?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.device_id import parse_device_id
from gpugauge.explain.check import NotSeenError, broken, check, need, ok, warning
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asked, asking, given, gpu_files, refused_devices, wanted
from gpugauge.explain.report import Answer, Layer

_SHOWN = 2


@check(Layer.ALLOCATION, 8, 9)
def admission(e: Evidence) -> Iterator[Answer]:
    """The kubelet admitted the pod, and has not ended it."""
    pod = wanted(e)
    if not pod.node:
        raise NotSeenError(e.why("kubelet"))
    again = f"kubectl -n {pod.namespace} delete pod {pod.name}   # its controller makes another"
    if pod.reason == "UnexpectedAdmissionError":
        ended = [c for c in pod.containers if c.state == "terminated"]
        if ended and all(c.exit_code == 0 for c in ended):
            yield broken(
                f"it had completed, and was failed when the kubelet restarted: {pod.message}",
                "a completed pod stays completed",
                f"a newer kubelet; {again}",
                case=9,
            )
            return
        yield broken(
            f"{pod.reason}: {pod.message}",
            "the plugin has registered healthy devices before the kubelet admits pods",
            again,
            case=8,
        )
    elif pod.phase == "Failed" and pod.reason and not refused_devices(pod):
        yield broken(
            f"the kubelet ended it: {pod.reason}: {pod.message}",
            "a pod that runs",
            f"kubectl -n {pod.namespace} describe pod {pod.name}",
        )
    elif pod.phase == "Running":
        yield ok("admitted")


@check(Layer.ALLOCATION, 6, 11)
def devices(e: Evidence) -> Iterator[Answer]:
    """The kubelet's list has the devices that the pod asks for."""
    pod = asking(e)
    if not pod.node:
        raise NotSeenError(e.why("allocations"))
    if pod.phase in ("Succeeded", "Failed"):
        raise NotSeenError(f"it ended ({pod.phase}): its devices were given back")
    ids = given(e)
    want = sum(asked(pod).values())
    if pod.claims and not want:
        yield from _claimed(e, ids)
        return
    if ids and len(ids) >= want:
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        shared = sorted({parse_device_id(i).base for i in ids if parse_device_id(i).replica})
        yield ok(f"{', '.join(ids[:_SHOWN])}{more}" + (" (shared)" if shared else ""))
        return
    if not any(c.state == "running" for c in pod.containers):
        raise NotSeenError("no container of it runs yet: the kubelet lists it from then on")
    app = sum(1 for c in pod.containers if c.kind == "app" and c.resources)
    if not ids and not app:
        return  # only an init container asked, and it is over
    inside = any(gpu_files(c.devices or ()) for c in e.containers or ())
    found = warning if inside else broken
    yield found(
        f"it asks for {want}, and the kubelet lists {len(ids) or 'no'} devices of it"
        + ("; the kubelet may give its GPU to others" if inside else ""),
        f"{want} device ids of this pod in PodResources",
        f"kubectl -n {pod.namespace} delete pod {pod.name}   # the kubelet lost its checkpoint",
        case=11,
    )


def _claimed(e: Evidence, ids: tuple[str, ...]) -> Iterator[Answer]:
    if ids:
        yield ok(f"by claim: {', '.join(ids[:_SHOWN])}")
        return
    claims = need(e.claims, e, "claims")
    allocated = [one for one in claims if one.allocated]
    if len(allocated) == len(claims) and claims:
        yield ok(f"by claim: {', '.join(allocated[0].allocated[:_SHOWN])}")
        return
    names = ", ".join(one.name for one in claims if not one.allocated)
    yield broken(
        f"claim {names or 'of the pod'} has no devices allocated",
        "status.allocation in the ResourceClaim",
        "kubectl describe resourceclaims; kubectl get resourceslices",
        case=6,
    )


@check(Layer.ALLOCATION, 10, node=True)
def holders(e: Evidence) -> Iterator[Answer]:
    """Every pod that the kubelet's checkpoint gives devices to still exists."""
    if e.kubelet is None or not e.kubelet.holders:
        return
    if e.node_pods is None:
        if not e.pod_wanted:
            raise NotSeenError(e.why("node_pods"))
        return
    known = {pod.uid for pod in e.node_pods}
    # The UID of a static pod is a hash without dashes, and not the API server's.
    dead = sorted(uid for uid in e.kubelet.holders if uid not in known and "-" in uid)
    if dead:
        yield warning(
            f"the kubelet's checkpoint holds {e.kubelet.holders[dead[0]]} for pod UID "
            f"{dead[0]}, which is gone" + (f" (and {len(dead) - 1} more)" if dead[1:] else ""),
            "devices of deleted pods given back, at the latest with the next allocation",
            "systemctl restart kubelet",
            case=10,
        )


CHECKS = (admission, devices, holders)
