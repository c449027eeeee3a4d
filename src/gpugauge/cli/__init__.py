"""The commands. A command is one module of this package, and one entry of COMMANDS.

Exit codes: 0 success; 1 looked, and found something; the others as in
`gpugauge.errors`. Errors go to standard error: one sentence and the next step.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from gpugauge import __version__
from gpugauge.cli import program
from gpugauge.cli.terminal import cleaned
from gpugauge.errors import EXIT_INTERNAL, EXIT_OK, EXIT_SETTING, GpugaugeError

COMMANDS = (
    "run",
    "top",
    "check",
    "diagnose",
    "explain",
    "functions",
    "demo",
    "record",
    "bugreport",
)
PLUGIN_COMMANDS = ("top", "check", "diagnose", "explain")
"""Those of `kubectl gpugauge`: the ones that reach a pod or an agent anywhere."""
LOG = logging.getLogger(__name__)


class Command(Protocol):
    """What a command's module offers."""

    HELP: str
    """One line for `gpugauge --help`."""
    EXAMPLES: str
    """Lines at the end of the command's own help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    arguments = _parse(sys.argv[1:] if argv is None else argv)
    if isinstance(arguments, int):
        return arguments
    try:
        return _command(arguments.command).run(arguments)
    except GpugaugeError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # as a shell says it of a program that ^C ended
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: no fault of ours.
        sys.stderr.close()
        return EXIT_OK
    except Exception as error:  # a fault of gpugauge's own: say so, with the trace behind -v
        LOG.debug("fault", exc_info=True)
        if arguments.verbose:
            raise
        _say(f"A fault of gpugauge itself: {type(error).__name__}: {error}. Run again with -v.")
        return EXIT_INTERNAL


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = argparse.ArgumentParser(
        prog=program.name(),
        description="A pressure gauge for GPUs: who works, who waits, who shares, and why.",
        epilog=f"Try: {program.name()} check",
    )
    root.add_argument("--version", action="version", version=f"gpugauge {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in PLUGIN_COMMANDS if program.is_plugin() else COMMANDS:
        command = _command(name)
        sub = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        sub.add_argument("-v", "--verbose", action="store_true", help="show faults in full")
        command.add_arguments(sub)
    return root


def _command(name: str) -> Command:
    return cast(Command, import_module(f"gpugauge.cli.{name}"))


def _parse(argv: Sequence[str]) -> argparse.Namespace | int:
    """Return the parsed line, or the exit code where argparse answered by itself."""
    try:
        return parser().parse_args(argv)
    except SystemExit as end:
        return EXIT_SETTING if end.code else EXIT_OK


def _say(sentence: str) -> None:
    print(f"gpugauge: {cleaned(sentence)}", file=sys.stderr)
