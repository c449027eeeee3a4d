"""The API server's part of the evidence, each question for itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gpugauge.attribution.request_path import ClaimFacts, PodRequest
from gpugauge.errors import GpugaugeError, UnavailableError
from gpugauge.explain.checks.spec import GONE

if TYPE_CHECKING:
    from gpugauge.attribution.request_path_reader import RequestPathReader

T = TypeVar("T")
LOG = logging.getLogger(__name__)
SOURCES = ("pod", "events", "node", "nodes", "node_pods", "claims", "slices", "daemon_sets")


def reason(error: GpugaugeError) -> str:
    """Return an error's sentence as the second half of one: `not seen, because ...`."""
    text = error.sentence.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


class Found:
    """Values by source, and why the others are missing."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.missing: dict[str, str] = {}

    def take(self, source: str, read: Callable[[], T]) -> T | None:
        """Read a source; None where it is missing, with the reason noted."""
        try:
            value = read()
        except GpugaugeError as error:
            self.missing[source] = reason(error)
            return None
        except Exception as error:  # what is not ours can have any form: the walk goes on
            LOG.warning("explain: %s", source, exc_info=True)
            self.missing[source] = f"it could not be read ({type(error).__name__})"
            return None
        self.values[source] = value
        return value

    def lacks(self, why: str, *sources: str) -> None:
        """Note why sources were not looked at."""
        self.missing.update(dict.fromkeys(sources, why))


def gather_pod(found: Found, reader: RequestPathReader, wanted: str) -> str:
    """Take in a pod and what belongs to it; return its node, "" for none."""
    from gpugauge.attribution.request_path_reader import NotThereError

    namespace, _, name = wanted.partition("/")
    pod = None
    try:
        pod = found.values["pod"] = reader.pod(namespace, name)
    except NotThereError:
        found.missing["pod"] = GONE
    except GpugaugeError as error:
        found.missing["pod"] = reason(error)
    if pod is None:
        # Whoever should make it may have been refused: events of its owner, by name.
        events = found.take("events", lambda: reader.events(namespace, "reason=FailedCreate"))
        if events is not None:
            found.values["events"] = tuple(e for e in events if name.startswith(f"{e.name}-"))
        return ""
    uid, selector = pod.uid, f"involvedObject.name={name}"
    events = found.take("events", lambda: reader.events(namespace, selector))
    if events is not None:
        found.values["events"] = tuple(e for e in events if e.uid in ("", uid))
    if pod.runtime_class:
        try:
            found.values["runtime_handler"] = reader.runtime_class(pod.runtime_class)
        except NotThereError:
            found.values["runtime_handler"] = ""
        except GpugaugeError as error:
            found.missing["runtime_handler"] = reason(error)
    if pod.claims:
        claims = found.take(
            "claims",
            lambda: tuple(reader.claim(namespace, c.claim) for c in pod.claims if c.claim),
        )
        found.values["pod"] = with_gpu_claims(pod, claims or ())
    if not pod.node:
        found.take("nodes", reader.nodes)
    return pod.node


def with_gpu_claims(pod: PodRequest, claims: tuple[ClaimFacts, ...]) -> PodRequest:
    """Return a pod without the claims that are known to be for other things than GPUs."""
    other = {one.name for one in claims if not _of_gpus(one)}
    kept = tuple(one for one in pod.claims if one.claim not in other)
    names = {one.name for one in kept}
    containers = tuple(
        replace(one, claims=tuple(name for name in one.claims if name in names))
        for one in pod.containers
    )
    return replace(pod, claims=kept, containers=containers)


def _of_gpus(claim: ClaimFacts) -> bool:
    words = (*claim.device_classes, *(one.partition("/")[0] for one in claim.allocated))
    return not words or any(part in word for word in words for part in ("gpu", "nvidia", "mig"))


def gather_cluster(found: Found, reader: RequestPathReader, node: str) -> None:
    """Take in what does not depend on the pod."""
    found.take("daemon_sets", reader.daemon_sets)
    found.take("slices", reader.slices)
    if node:
        found.take("node", lambda: reader.node(node))
        found.take("node_pods", lambda: reader.node_pods(node))


def no_api(found: Found, error: UnavailableError) -> None:
    """Note that there is no way to the API server."""
    found.lacks(reason(error), *SOURCES, "runtime_handler")
