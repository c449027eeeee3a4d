"""`gpugauge demo`: the agent beside workloads, what it sees of them, and incidents it names."""

from __future__ import annotations

import argparse
import os

from gpugauge import settings
from gpugauge.model.finding import Finding

HELP = "Start some workloads, show what the agent sees of them, and let it name three incidents"
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
    from gpugauge.cli.diagnose.lines import with_lines
    from gpugauge.cli.diagnose.text import finding_text

    def tell(finding: Finding) -> str:
        (whole,), _ = with_lines((finding,))
        return finding_text(whole)

    return demo(given, tell)
