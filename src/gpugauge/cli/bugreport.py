"""`gpugauge bugreport`: what a maintainer needs, without names, paths or secrets of tenants."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from gpugauge import settings
from gpugauge.errors import EXIT_OK, GpugaugeError, UnavailableError

HELP = "Write a redacted report for a bug: versions, features, settings, health, last log lines"
EXAMPLES = """\
examples:
  sudo gpugauge bugreport                  # to the screen: read it before you send it
  sudo gpugauge bugreport --output report.json
  kubectl -n gpugauge exec POD -- gpugauge bugreport
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and every setting as a flag: the port of the agent is one of them."""
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it there")
    settings.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask the agent of this node, add what can be seen from here, and write it all."""
    given = settings.from_arguments(arguments, os.environ)
    from gpugauge.agent.bugreport import machine_part, settings_part

    report: dict[str, Any] = {"machine": machine_part()}
    try:
        report["agent"] = json.loads(_ask(given))
    except (GpugaugeError, ValueError) as error:
        report["agent"] = None
        report["agent_error"] = getattr(error, "sentence", "its answer is no JSON")
        report["settings"] = settings_part(given)
    text = json.dumps(report, indent=1, ensure_ascii=True) + "\n"
    if arguments.output is None:
        print(text, end="")
        return EXIT_OK
    try:
        arguments.output.write_text(text, encoding="ascii")
    except OSError as error:
        raise UnavailableError(
            f"The report cannot be written to {arguments.output} ({error.strerror}).",
            "Give another --output, or none to see it on the screen.",
        ) from error
    return EXIT_OK


def _ask(given: settings.Settings) -> bytes:
    from gpugauge.agent.bugreport import REPORT_PATH
    from gpugauge.export.access import read_token
    from gpugauge.remote.page import ask

    url = f"http://127.0.0.1:{given.listen.port}"
    return ask(url, REPORT_PATH, read_token(given.listen.bearer_token_file))
