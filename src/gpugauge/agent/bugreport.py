"""What a bug report holds: enough to find a fault, nothing of what tenants do or are called."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gpugauge import __version__
from gpugauge.agent.agent import Agent
from gpugauge.ebpf import features
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Answer, Request
from gpugauge.model.library import Library, SiteKind
from gpugauge.settings import Settings

REPORT_PATH = "/api/v1/report"
SECRET = ("bearer_token_file", "node_name")
"""Settings of which only is told whether they are set."""
SYSTEM_PATHS = ("/usr/", "/lib", "/bin/", "/sys/", "/proc/", "/dev/", "/run/nvidia/", "/etc/ld.so")
"""Of the system and not of a tenant: kept as they are."""
PROCESS_PATH = re.compile(r"/proc/\d+/(root|cwd)/")
PATH = re.compile(r"(?<![\w.])/[^\s:;,'\"()\[\]]+")


def hidden(text: str) -> str:
    """Return a short mark for a text: equal for equal texts, and it does not lead back."""
    return "#" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def redacted(line: str) -> str:
    """Return a line in which every path that may be a tenant's is hidden."""

    def one(match: re.Match[str]) -> str:
        path = match[0]
        if path.startswith(SYSTEM_PATHS) and not PROCESS_PATH.match(path):
            return path
        return hidden(path)

    return PATH.sub(one, line)


def settings_part(settings: Settings) -> dict[str, Any]:
    """Return the settings; of secrets and names only whether they are set."""

    def clean(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: clean(value)
            if isinstance(value, Mapping)
            else ("set" if value else "") if name in SECRET
            else value
            for name, value in values.items()
        }  # fmt: skip

    found: dict[str, Any] = json.loads(json.dumps(clean(dataclasses.asdict(settings)), default=str))
    return found


def machine_part() -> dict[str, Any]:
    """Return versions, and what this Linux offers."""
    return {
        "gpugauge": __version__,
        "python": sys.version.split()[0],
        "linux": platform.release(),
        "machine": platform.machine(),
        "features": {
            name: "offered" if each.offered else each.why_not
            for name, each in features.probe().items()
        },
        "lockdown": features.lockdown(),
    }


def library_part(library: Library) -> dict[str, Any]:
    """Return one attached library; the path of a tenant's is hidden."""
    kinds = [site.kind for site in library.sites]
    return {
        "path": hidden(library.shown_path) if library.tenant_supplied else library.shown_path,
        "tenant_supplied": library.tenant_supplied,
        "version": library.version,
        "build_id": library.build_id,
        "size_bytes": library.size_bytes,
        "simulated": library.simulated,
        "exported": library.exported,
        "sites": {kind.value: kinds.count(kind) for kind in SiteKind},
        "no_site": {s.symbol: s.reason for s in library.sites if s.kind is SiteKind.NONE},
        "unknown_symbols": list(library.unknown_symbols),
    }


class ReportPage:
    """The part of a report that only the running agent knows."""

    def __init__(self, settings: Settings, exposition: Exposition, lines: Iterable[str]) -> None:
        """Take what is told of; the agent comes later.

        Args:
            settings: Of this run.
            exposition: Has the newest snapshot.
            lines: The last log lines; read at each report.
        """
        self._settings = settings
        self._exposition = exposition
        self._lines = lines
        self.agent: Agent | None = None

    def __call__(self, _: Request) -> Answer:
        """Answer with JSON."""
        return Answer(json.dumps(self.report()).encode() + b"\n", "application/json")

    def report(self) -> dict[str, Any]:
        """Return the report."""
        snapshot, agent = self._exposition.snapshot, self.agent
        found: dict[str, Any] = {
            "settings": settings_part(self._settings),
            "log": [redacted(line) for line in list(self._lines)],
        }
        if snapshot is not None:
            found["driver"] = snapshot.driver_version
            found["devices"] = [device.model for device in snapshot.devices]
            found["processes"] = len(snapshot.processes)
            health = dataclasses.asdict(snapshot.agent)
            health["losses"] = {loss.name.lower(): n for loss, n in health["losses"].items() if n}
            found["health"] = json.loads(redacted(json.dumps(health)))
        if agent is not None:
            found["libraries"] = [library_part(each) for each in agent.tracer.libraries()]
            found["proof"] = dataclasses.asdict(agent.proof)
            found["kubernetes"] = {
                "asked": agent.attribution.kubernetes,
                "watch_age_seconds": agent.attribution.watch_age_seconds,
            }
            found["sideband"] = {
                "lost": agent.libraries.sideband_lost,
                "error": agent.libraries.sideband_error,
            }
        return found
