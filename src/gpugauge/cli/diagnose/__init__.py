"""`gpugauge diagnose`: why a pod is slow, from the agent, a recording or a whole cluster."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from gpugauge import settings
from gpugauge.cli import target as targets
from gpugauge.cli.diagnose import source
from gpugauge.cli.diagnose.lines import with_lines
from gpugauge.cli.diagnose.text import report
from gpugauge.cli.interrupt import ending_in_order
from gpugauge.codec.finding import dump_findings
from gpugauge.errors import EXIT_FOUND, EXIT_OK, GpugaugeError, SettingError
from gpugauge.model.finding import Finding

HELP = "Say why a pod is slow, with the numbers that show it; silent when nothing is wrong"
EXAMPLES = """\
examples:
  gpugauge diagnose                               # the agent on this node
  gpugauge diagnose ml/train-0 --since 30m
  kubectl gpugauge diagnose ml/train-0            # a pod anywhere: its node's agent
  kubectl gpugauge diagnose                       # all agents of the cluster
  gpugauge diagnose --file node-7.jsonl.gz        # a recording
  gpugauge diagnose --prometheus http://localhost:9090 --since 1h

exit code: 0 nothing found, 1 findings, 2 could not look
"""
EXIT_COULD_NOT_LOOK = 2
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where to look, at whom, and how to write it."""
    parser.add_argument("named", nargs="?", default="", metavar="NAMESPACE/POD", help="only this")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--file", type=Path, metavar="RECORDING", help="as `gpugauge record` writes")
    where.add_argument("--prometheus", metavar="URL", help="all nodes that Prometheus scrapes")
    parser.add_argument("--pod", default="", metavar="NAMESPACE/NAME", help="the same")
    parser.add_argument("--node", default="", metavar="NAME", help="only this node of a cluster")
    parser.add_argument(
        "--since", type=_seconds, default=600.0, metavar="TIME", help="how far back; default 10m"
    )
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument(
        "--no-lines", action="store_true", help="do not sample where Python programs wait"
    )
    targets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, write what was found, and return the exit code."""
    arguments.pod = arguments.pod or arguments.named
    try:
        pod, seen = _look(arguments)
    except GpugaugeError as error:
        print(f"gpugauge: could not look: {error}", file=sys.stderr)
        return EXIT_COULD_NOT_LOOK
    findings = tuple(f for f in seen.findings if _is_of(f, pod))
    if seen.is_live and not arguments.no_lines:
        findings, notes = with_lines(findings)
        seen = replace(seen, notes=(*seen.notes, *notes))
    if arguments.json:
        print(dump_findings(findings).decode())
    else:
        print(report(findings, seen, pod))
    return EXIT_FOUND if findings else EXIT_OK


def _look(arguments: argparse.Namespace) -> tuple[str, source.Seen]:
    """Return the pod in question, "" for all, and what was seen."""
    given = settings.from_arguments(arguments, os.environ)
    if arguments.agent and (arguments.file or arguments.prometheus):
        raise SettingError("--agent, --file and --prometheus exclude each other.", "Give one.")
    if arguments.pod:
        arguments.pod = "/".join(targets.pod_of(arguments, arguments.pod))
    if arguments.file is not None:
        return arguments.pod, source.from_recording(arguments.file, given, arguments.since)
    if arguments.prometheus is not None:
        url, now = arguments.prometheus, time.time()
        return arguments.pod, source.from_prometheus(url, given, arguments.since, now)
    with ending_in_order():
        wanted = targets.target(arguments, given, every=True)
        if not targets.is_cluster(arguments):
            return arguments.pod, source.from_agent(wanted.links[0], given, arguments.since)
        return arguments.pod, source.from_agents(wanted.links, given, arguments.since)


def _is_of(finding: Finding, pod: str) -> bool:
    if not pod:
        return True
    owners = [finding.owner, *(party.owner for party in finding.parties)]
    return any(owner is not None and f"{owner.namespace}/{owner.pod}" == pod for owner in owners)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 90s, 10m or 2h")
    return float(match[1]) * _UNITS[match[2] or "s"]
