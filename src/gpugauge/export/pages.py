"""The pages that every agent serves: /metrics, health, and the newest snapshot as JSON."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from gpugauge.codec.finding import dump_findings
from gpugauge.codec.snapshot import dump_snapshot
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Answer, Page, Request
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import Settings

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
STALLED_TICKS = 10
STALLED_SECONDS_AT_LEAST = 15.0
"""A tick this late is a stall: far above a scan or an attach, far below a scrape or two."""

OWNERS_ALONE = "detail=owner"
"""In the query: without what rates of owners do not need, for who asks many nodes at a time."""


def standard_pages(exposition: Exposition, settings: Settings) -> dict[str, Page]:
    """Return the pages by path; an agent adds its own to them."""
    stalled_seconds = max(STALLED_TICKS * settings.tick_seconds, STALLED_SECONDS_AT_LEAST)

    def metrics(request: Request) -> Answer:
        body = exposition.text(compressed=request.accepts_gzip)
        more = (("Content-Encoding", "gzip"),) if request.accepts_gzip else ()
        return Answer(body, PROMETHEUS_TEXT, headers=(*more, ("Vary", "Accept-Encoding")))

    def health(_: Request) -> Answer:
        age = exposition.age_seconds
        if age > stalled_seconds:
            return _unavailable(f"the last tick ended {age:.0f} s ago")
        return _ok(exposition.snapshot)

    def ready(_: Request) -> Answer:
        snapshot = exposition.snapshot
        if snapshot is None or not snapshot.agent.ready:
            return _unavailable("the first scan for driver libraries is not done")
        return _ok(snapshot)

    def snapshot_json(request: Request) -> Answer:
        exposition.renew()
        snapshot = exposition.snapshot
        if snapshot is None:
            return _unavailable("there is no snapshot yet")
        if OWNERS_ALONE in request.query.split("&"):
            snapshot = owners_alone(snapshot)
        return Answer(dump_snapshot(snapshot) + b"\n", "application/json")

    def findings_json(_: Request) -> Answer:
        exposition.renew()
        body = dump_findings(exposition.findings, exposition.lacked)
        return Answer(body + b"\n", "application/json")

    return {
        "/metrics": Page(metrics, open=True),
        "/healthz": Page(health, open=True),
        "/readyz": Page(ready, open=True),
        "/api/v1/snapshot": Page(snapshot_json),
        "/api/v1/findings": Page(findings_json),
    }


def owners_alone(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without processes and histograms: the totals of each owner."""
    series = tuple(replace(each, histograms={}) for each in snapshot.series)
    return replace(snapshot, processes=(), series=series)


def _ok(snapshot: Snapshot | None) -> Answer:
    """Answer that all is well; probes that somebody switched off are no fault, and said."""
    off = [each.source for each in snapshot.agent.off_switches if each.off] if snapshot else []
    said = f"probes are switched off by {', '.join(off)}\n" if off else ""
    return Answer(f"ok\n{said}".encode())


def _unavailable(why: str) -> Answer:
    return Answer(f"{why}\n".encode(), status=HTTPStatus.SERVICE_UNAVAILABLE)
