"""`gpugauge top`: who works, who waits and who shares, now, on this host or in a cluster."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace

from gpugauge import settings
from gpugauge.cli import target as targets
from gpugauge.cli.interrupt import ending_in_order
from gpugauge.cli.target import Target
from gpugauge.cli.terminal.screen import Screen
from gpugauge.cli.top.document import document
from gpugauge.cli.top.look import Look, Looks
from gpugauge.cli.top.page import page
from gpugauge.cli.top.sort import SORTS
from gpugauge.errors import EXIT_OK, EXIT_UNAVAILABLE, UnavailableError
from gpugauge.remote.fleet import AT_ONCE, Fleet
from gpugauge.remote.page import SECONDS

FIND_SECONDS = 30.0
"""Agents are looked for this often while they are watched, and whenever one does not answer."""
HELP = "Show what each pod gives its GPU, how long it waits, and with whom it shares: now"
EXAMPLES = """\
examples:
  gpugauge top                              # this host's agent
  kubectl gpugauge top                      # the pods of your namespace, wherever they run
  kubectl gpugauge top -A --sort waits      # all pods, those that wait most first
  kubectl gpugauge top nodes                # a line a GPU
  kubectl gpugauge top --pod ml/train-0 --once --json
columns: docs/kubectl.md; `?` is what is not known
exit code: 0; 2 a bad argument; 4 the cluster, or every agent that was asked, did not answer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to show, of whom, how often and in which form."""
    parser.add_argument(
        "what",
        nargs="?",
        default="pods",
        choices=("pods", "nodes"),
        help="a row a container and GPU, or a row a GPU; default pods",
    )
    targets.add_place(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    parser.add_argument("--workload", default="", metavar="NAME", help="only pods of this workload")
    parser.add_argument("--ended", action="store_true", help="also pods whose processes ended")
    parser.add_argument(
        "--sort",
        default="launches",
        choices=SORTS,
        metavar="COLUMN",
        help=f"the most first, of {', '.join(SORTS)}; default %(default)s",
    )
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="one table; the default where piped")
    often.add_argument("--watch", action="store_true", help="until ^C; the default on a terminal")
    parser.add_argument("--json", action="store_true", help="JSON, one line a table")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=2.0,
        metavar="SECONDS",
        help="between two looks, over which rates are taken; default %(default)s",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=SECONDS,
        metavar="SECONDS",
        help="for each answer of an agent; default %(default)s",
    )
    parser.add_argument(
        "--at-once",
        type=_agents,
        default=AT_ONCE,
        metavar="AGENTS",
        help="so many are asked at the same time; default %(default)s",
    )
    targets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look twice, show the difference, and go on if it is to be watched."""
    watch = arguments.watch or (sys.stdout.isatty() and not arguments.once and not arguments.json)
    with ending_in_order():
        wanted = _target(arguments)
        screen = Screen(in_place=watch and not arguments.json)
        with Fleet(wanted.links, arguments.at_once) as fleet:
            looks = Looks(fleet, arguments.timeout)
            looks.look()
            look = _next(arguments, wanted, screen, looks)
            found_at = time.monotonic()
            while watch:
                if look.failed or time.monotonic() - found_at > FIND_SECONDS:
                    # Pods move, and agents are replaced; what cannot be asked now stays.
                    with suppress(UnavailableError):
                        wanted = _target(arguments)
                        fleet.follow(wanted.links)
                    found_at = time.monotonic()
                look = _next(arguments, wanted, screen, looks)
    nobody = look.answers and not any(answer.value for answer in look.answers)
    return EXIT_UNAVAILABLE if nobody else EXIT_OK


def _target(arguments: argparse.Namespace) -> Target:
    given = settings.from_arguments(arguments, os.environ)
    wanted = targets.target(arguments, given, every=arguments.what == "nodes")
    if arguments.what == "nodes":
        return replace(wanted, namespace="", pod="")  # a GPU's sums are of all that is on it
    return wanted


def _next(arguments: argparse.Namespace, wanted: Target, screen: Screen, looks: Looks) -> Look:
    time.sleep(looks.wait_seconds(arguments.interval))
    look = looks.look()
    _show(arguments, wanted, screen, look)
    return look


def _show(arguments: argparse.Namespace, wanted: Target, screen: Screen, look: Look) -> None:
    rows = look.rows(wanted, arguments.workload, arguments.sort, ended=arguments.ended)
    if arguments.json:
        print(document(look, rows, arguments.what), flush=True)
        return
    screen.draw(*page(look, rows, arguments.what, wanted, room=screen.room, colour=screen.colour))


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.1 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return number


def _agents(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:4]) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 64")
    return int(text)
