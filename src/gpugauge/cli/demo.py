"""`gpugauge demo`: the agent beside workloads, and what it sees of them."""

from __future__ import annotations

import argparse
import os

from gpugauge import settings

HELP = "Start some workloads and show what the agent sees of them"
EXAMPLES = """\
examples:
  sudo gpugauge demo        # on the real driver where there is one, else on the simulated one
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every setting as a flag."""
    settings.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show it."""
    given = settings.from_arguments(arguments, os.environ)
    from gpugauge.agent.demo import demo

    return demo(given)
