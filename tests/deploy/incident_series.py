"""Incidents of made-up nodes as series: what a Prometheus would have scraped of each."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpugauge.export.exposition import Exposition
from gpugauge.model.snapshot import OwnerTime, Snapshot
from gpugauge.settings import Settings
from tests.deploy.promql import ROOT
from tests.incidents.incidents import INCIDENTS
from tests.incidents.node import Node
from tests.incidents.scenario import Scenario
from tests.incidents.seen import SECOND

PROMTOOL = ROOT / ".tools" / "bin" / "promtool"
SCRAPE_S = 10.0
BEFORE_S = 200.0
"""Scrapes begin so long before the onset: a comparison needs no more."""
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


@dataclass(frozen=True)
class Incident:
    """One incident in a cluster of its own."""

    cluster: str
    workload: str
    onset_s: float
    """Seconds of Unix time."""
    lines: tuple[str, ...]


def scenario_of(rule: str, name: str, seed: int) -> Scenario:
    """Return the scenario of this name, drawn from a seed."""
    (maker,) = [
        make for of, make, _ in INCIDENTS if of == rule and make(random.Random(0)).name == name
    ]
    return maker(random.Random(seed))


def play(rule: str, name: str, seed: int, *, began_s: float, cluster: str) -> Incident:
    """Return what was scraped in this cluster of a scenario that began at this time."""
    scenario = scenario_of(rule, name, seed)
    node, truth = scenario.node, scenario.truth
    exposition = Exposition(Settings().series)
    lines: list[str] = []
    scraped = float("-inf")
    while node.elapsed_s < scenario.length_s:
        for entry in [e for e in scenario.script if e[0] <= node.elapsed_s + node.dt / 2]:
            scenario.script.remove(entry)
            entry[1]()
        snapshot = completed(node.tick(), node)
        if node.elapsed_s < truth.onset_s - BEFORE_S:
            continue
        if node.elapsed_s - scraped >= SCRAPE_S:
            scraped = node.elapsed_s
            exposition.publish(snapshot)
            text = exposition.text().decode()
            lines += stamped(text, cluster, began_s + node.elapsed_s)
    workload = truth.pod.rsplit("-", 1)[0]
    return Incident(cluster, workload, began_s + truth.onset_s, tuple(lines))


def completed(snapshot: Snapshot, node: Node) -> Snapshot:
    """Return a snapshot with what the made-up node leaves out: sharing, and the GPU's waits."""
    uses = []
    for use in snapshot.device_use:
        here = [p for p in node.processes if node.uuids[p.gpu] == use.gpu_uuid and p.alive]
        pods = {p.pod for p in here if p.pod != "host"}
        many = len(here)
        uses.append(
            replace(use, processes_with_context=many, processes_active=many, pods=len(pods))
        )
    idle: dict[str, int] = {}
    for process in node.processes:
        idle[process.pod] = idle.get(process.pod, 0) + int(process.counters.idle * SECOND)
    times = tuple(_split(each, idle.get(each.owner.pod, 0)) for each in snapshot.times)
    return replace(snapshot, device_use=tuple(uses), times=times)


def _split(time: OwnerTime, idle_ns: int) -> OwnerTime:
    waited = min(idle_ns, time.observed_ns - time.host_waits_ns)
    rest = time.observed_ns - time.host_waits_ns - waited
    return replace(time, gpu_waits_ns=waited, overlapped_ns=rest)


def stamped(text: str, cluster: str, at_s: float) -> Iterator[str]:
    """Yield the samples of a scrape with the labels of their target, and the time."""
    for line in text.splitlines():
        found = SAMPLE.fullmatch(line)
        if found:
            labels = ",".join(filter(None, (found[2], f'cluster="{cluster}",instance="x"')))
            yield f"{found[1]}{{{labels}}} {found[3]} {at_s:.3f}"


def import_series(incidents: Sequence[Incident], folder: Path) -> None:
    """Write the series of incidents as blocks into the data folder of a Prometheus."""
    text = folder.parent / "series.txt"
    lines = [line for incident in incidents for line in incident.lines]
    text.write_text("\n".join(lines) + "\n# EOF\n")
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
