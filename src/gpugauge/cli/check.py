"""`gpugauge check`: can the agent run here, and what will it see? A line each, with the remedy."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from gpugauge import settings
from gpugauge.cli.check_driver import library_lines, nvml_lines
from gpugauge.cli.check_line import Line, State
from gpugauge.cli.check_linux import linux_lines
from gpugauge.cli.check_node import node_lines
from gpugauge.errors import EXIT_FOUND, EXIT_OK

HELP = "Tell whether the agent can run here, what it would see, and what to do about the rest"
EXAMPLES = """\
examples:
  sudo gpugauge check
  sudo gpugauge check --json | jq '.[] | select(.state == "failed")'
exit code: 1 when something failed, else 0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the form and every setting as a flag."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    settings.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, and print a line each."""
    return show(lines(settings.from_arguments(arguments, os.environ)), arguments.json)


def lines(given: settings.Settings) -> Iterator[Line]:
    """Yield every line of the check."""
    yield from linux_lines(given)
    yield from library_lines(given)
    yield from nvml_lines()
    yield from node_lines(given)


def show(checked: Iterable[Line], as_json: bool) -> int:
    """Print the lines as they come; 1 when one failed."""
    every = []
    for line in checked:
        every.append(line)
        if not as_json:
            print(line, flush=True)
    if as_json:
        print(json.dumps([asdict(line) for line in every], indent=1))
    return EXIT_FOUND if any(line.state is State.FAILED for line in every) else EXIT_OK
