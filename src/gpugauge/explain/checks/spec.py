"""Is there such a pod, and is what it asks for possible?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.attribution.podresources import RESOURCES
from gpugauge.attribution.request_path import ContainerRequest
from gpugauge.explain.check import NotSeenError, broken, check, need, ok
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asked, asks, counts_text, gpu_limits, wanted
from gpugauge.explain.report import Answer, Layer

GONE = "there is no such pod"
_REFUSED = ("Limit must be set", "must be equal to", "must be an integer", "whole number")
"""What the API server says of extended resources that are not whole or not limits."""


@check(Layer.SPEC, 7)
def pod(e: Evidence) -> Iterator[Answer]:
    """The pod exists; where it does not, whoever should make it may have been refused."""
    if e.pod is not None:
        where = f"on {e.pod.node}" if e.pod.node else "bound to no node"
        yield ok(f"{e.pod_wanted} is {e.pod.phase or 'of unknown phase'}, {where}")
        return
    namespace, _, name = e.pod_wanted.partition("/")
    for event in reversed(e.events or ()):
        if event.reason == "FailedCreate" and name.startswith(event.name):
            if any(word in event.message for word in _REFUSED):
                yield broken(
                    f"{event.kind} {event.name} could not make it: {event.message}",
                    "GPUs as whole numbers, in limits (requests may only be equal)",
                    f"kubectl -n {namespace} edit {event.kind.lower()} {event.name}",
                    case=7,
                )
                return
            yield broken(
                f"{event.kind} {event.name} could not make it: {event.message}",
                "the API server accepts the pod",
                f"kubectl -n {namespace} describe {event.kind.lower()} {event.name}",
            )
            return
    if e.why("pod") == GONE:
        yield broken(
            f"{GONE}: {e.pod_wanted}",
            "a pod of this name",
            f"kubectl -n {namespace} get pods",
        )
        return
    raise NotSeenError(e.why("pod"))


@check(Layer.SPEC, 7)
def resources(e: Evidence) -> Iterator[Answer]:
    """GPUs stand in limits, as whole numbers, equal to requests."""
    told = wanted(e)
    faults = [fault for container in told.containers for fault in _faults(container)]
    for fault in faults:
        yield broken(
            fault,
            "whole numbers in limits; requests equal to them or left out",
            f"kubectl -n {told.namespace} get pod {told.name} -o yaml | grep -B3 -A3 nvidia.com",
            case=7,
        )
    if faults:
        return
    if not asks(told):
        yield ok("it asks for no GPU")
        return
    amounts = [counts_text(asked(told))] if asked(told) else []
    yield ok("it asks for " + ", ".join([*amounts, *(f"claim {one.name}" for one in told.claims)]))


def _faults(container: ContainerRequest) -> Iterator[str]:
    for resource, text in gpu_limits(container).items():
        if not text.isdecimal():
            yield f"container {container.name} asks for {text} of {resource}"
        elif container.requests.get(resource, text) != text:
            yield (
                f"container {container.name}: limit {text} and request "
                f"{container.requests[resource]} of {resource} differ"
            )
    for resource in container.requests:
        if resource.startswith(RESOURCES) and resource not in container.resources:
            yield f"container {container.name} has {resource} in requests and not in limits"


@check(Layer.SPEC)
def runtime_class(e: Evidence) -> Iterator[Answer]:
    """The RuntimeClass that it names exists."""
    told = wanted(e)
    if not told.runtime_class:
        return
    handler = need(e.runtime_handler, e, "runtime_handler")
    if handler:
        yield ok(f"RuntimeClass {told.runtime_class} exists (handler {handler})")
        return
    yield broken(
        f"it names RuntimeClass {told.runtime_class}, which does not exist",
        f"a RuntimeClass {told.runtime_class}",
        "kubectl get runtimeclasses",
    )


CHECKS = (pod, resources, runtime_class)
