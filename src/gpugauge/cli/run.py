"""`gpugauge run`: the agent."""

from __future__ import annotations

import argparse
import os

from gpugauge import settings

HELP = "Run the agent: trace this node's GPU processes and serve /metrics"
EXAMPLES = """\
examples:
  sudo gpugauge run                                  # then: curl -s localhost:9836/metrics
  sudo gpugauge run --listen-port 9999 --attach-mode multi
  sudo gpugauge run --settings /etc/gpugauge.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every setting as a flag."""
    settings.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    given = settings.from_arguments(arguments, os.environ)
    from gpugauge.agent.runner import run as run_agent

    return run_agent(given)
