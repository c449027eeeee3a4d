"""`check` of agents that run: of a cluster, of one node, or behind a URL."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpugauge.cli import target as targets
from gpugauge.cli.check.health import Checkup, lines
from gpugauge.cli.check.line import Line, State
from gpugauge.cli.interrupt import ending_in_order
from gpugauge.errors import ForeignDataError, GpugaugeError
from gpugauge.remote.cluster import gpu_nodes
from gpugauge.remote.fleet import Answer, Fleet
from gpugauge.remote.link import Link
from gpugauge.remote.page import PageError
from gpugauge.remote.reading import Reading, read
from gpugauge.settings import Settings

REPORT = "/api/v1/report"
HEALTH = "/healthz"
REPORT_LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class _Told:
    reading: Reading
    report: dict[str, Any] | None
    unhealthy: str


def agent_lines(arguments: argparse.Namespace, given: Settings) -> Iterator[Line]:
    """Yield the lines of every agent that is asked, and of nodes that lack one.

    Raises:
        SettingError: a name is none, or two that exclude each other were given.
        UnavailableError: the cluster cannot be asked, or has no such agent.
    """
    with ending_in_order():
        wanted = targets.target(arguments, given, every=True)
        with Fleet(wanted.links) as fleet:
            answers = fleet.each(_ask)
    versions = Counter(a.value.reading.snapshot.agent_version for a in answers if a.value)
    usual = versions.most_common(1)[0][0] if versions else ""
    for answer in answers:
        yield from _of(answer, usual)
    if targets.is_cluster(arguments) and not (arguments.node or arguments.pod):
        yield from _without_agent(arguments, {link.node for link in wanted.links})


def _of(answer: Answer[_Told], usual_version: str) -> Iterator[Line]:
    link, told = answer.link, answer.value
    if told is None:
        error = answer.error or GpugaugeError("it did not answer")
        sentence = f"No way to its agent: {error.sentence.rstrip('.')}."
        yield Line(State.FAILED, link.node or link.where, sentence, error.next_step)
        return
    checked = Checkup(
        node=link.node or told.reading.snapshot.node,
        agent=link.where,
        reading=told.reading,
        report=told.report,
        unhealthy=told.unhealthy,
        usual_version=usual_version,
    )
    yield from lines(checked)


def _ask(link: Link) -> _Told:
    unhealthy = ""
    try:
        link.ask(HEALTH)
    except PageError as error:
        unhealthy = error.sentence.rpartition(": ")[2]
    return _Told(read(link), _report(link), unhealthy)


def _report(link: Link) -> dict[str, Any] | None:
    try:
        found = json.loads(link.ask(REPORT, limit_bytes=REPORT_LIMIT_BYTES))
    except PageError as error:
        if error.status == 404:
            return None
        raise
    except (ValueError, RecursionError):
        raise ForeignDataError("its report is no JSON", "Is this an agent's port?") from None
    return found if isinstance(found, dict) else None


def _without_agent(arguments: argparse.Namespace, nodes: set[str]) -> Iterator[Line]:
    try:
        lacking = sorted(gpu_nodes(targets.kubectl_of(arguments)) - nodes)
    except GpugaugeError as error:
        yield Line(State.NOT_SEEN, "nodes without an agent", error.sentence, error.next_step)
        return
    for node in lacking:
        yield Line(
            State.FAILED,
            node,
            "It has GPUs and no agent.",
            "kubectl describe daemonset of the chart: node selector, affinity, tolerations.",
        )
