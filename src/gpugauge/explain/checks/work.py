"""Does the pod give its GPU work?"""

from __future__ import annotations

from collections.abc import Iterator

from gpugauge.explain.check import NotSeenError, check, need, ok
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.facts import asking, pod_processes, running
from gpugauge.explain.report import Answer, Layer
from gpugauge.model.abi import Slot


@check(Layer.WORK)
def launches(e: Evidence) -> Iterator[Answer]:
    """A first launch was made, and whether there is work now."""
    asking(e)
    running(e)
    need(e.processes, e, "processes")
    places = [d for p in pod_processes(e) for d in p.devices]
    made = sum(
        d.operations[slot].calls
        for d in places
        for slot in (Slot.LAUNCH, Slot.GRAPH_LAUNCH)
        if slot in d.operations
    )
    if not made:
        raise NotSeenError("no launch of it was seen")
    now = "active at the last tick" if any(d.active for d in places) else "no work at the last tick"
    yield ok(f"{made} launches seen, {now}")


CHECKS = (launches,)
