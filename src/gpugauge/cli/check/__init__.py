"""`gpugauge check`: can an agent run here, are those of a cluster well? A line each."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict

from gpugauge import settings
from gpugauge.cli import target as targets
from gpugauge.cli.check.agents import agent_lines
from gpugauge.cli.check.line import Line, State
from gpugauge.errors import EXIT_FOUND, EXIT_OK

HELP = "Tell whether agents can run and are well, what they miss, and what to do about it"
EXAMPLES = """\
examples:
  sudo gpugauge check                    # can an agent run on this host
  sudo gpugauge check --json | jq '.[] | select(.state == "failed")'
  kubectl gpugauge check                 # the agents of a cluster
  kubectl gpugauge check --node node-7
  gpugauge check --agent http://127.0.0.1:9836
exit code: 0; 1 when something failed, of agents also when one warns; 4 the cluster is not reached
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the form and every setting as a flag."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    targets.add_place(parser)
    targets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, and print a line each."""
    given = settings.from_arguments(arguments, os.environ)
    if targets.is_cluster(arguments) or arguments.agent or arguments.node or arguments.pod:
        found = (State.FAILED, State.WARN)
        return show(agent_lines(arguments, given), arguments.json, found)
    return show(lines(given), arguments.json)


def lines(given: settings.Settings) -> Iterator[Line]:
    """Yield every line of the check of this host."""
    # Only here: what asks agents elsewhere needs no BPF.
    from gpugauge.cli.check.driver import library_lines, nvml_lines
    from gpugauge.cli.check.linux import linux_lines
    from gpugauge.cli.check.node import node_lines

    yield from linux_lines(given)
    yield from library_lines(given)
    yield from nvml_lines()
    yield from node_lines(given)


def show(checked: Iterable[Line], as_json: bool, found: Collection[State] = (State.FAILED,)) -> int:
    """Print the lines as they come; 1 when one is of the states that count as found."""
    every = []
    for line in checked:
        every.append(line)
        if not as_json:
            print(line, flush=True)
    if as_json:
        print(json.dumps([asdict(line) for line in every], indent=1))
    return EXIT_FOUND if any(line.state in found for line in every) else EXIT_OK
