"""`gpugauge explain NAMESPACE/POD`: what happened when this pod asked for a GPU."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from dataclasses import replace

from gpugauge import settings
from gpugauge.cli import program
from gpugauge.cli import target as targets
from gpugauge.cli.interrupt import ending_in_order
from gpugauge.cli.terminal import cleaned
from gpugauge.errors import EXIT_FOUND, EXIT_OK, SettingError, UnavailableError
from gpugauge.explain import page
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.gather.api import reason
from gpugauge.explain.gather.look import NODE_SOURCES, look
from gpugauge.explain.sources import of_command
from gpugauge.explain.text import report_text
from gpugauge.explain.walk import walk
from gpugauge.export.access import read_token
from gpugauge.remote.page import ask

HELP = "Walk a pod's request for a GPU through every layer, and name the first that fails"
EXAMPLES = """\
examples:
  sudo gpugauge explain ml/train-0          # on the pod's node
  sudo gpugauge explain --node              # this node's layers, without a pod
  kubectl gpugauge explain ml/train-0       # from elsewhere: kubectl leads to its node's agent
  kubectl gpugauge explain --node node-7    # the layers of a node
  gpugauge explain ml/train-0 --agent http://127.0.0.1:9836   # through a tunnel of your own
exit code: 1 when a step is broken, else 0
"""

HERE = "."
"""A node that is no name: the one this process runs on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to explain, whom to ask, the form, and every setting as a flag."""
    parser.add_argument("pod", nargs="?", default="", metavar="NAMESPACE/POD", help="a pod")
    parser.add_argument(
        "--node",
        nargs="?",
        const=HERE,
        default="",
        metavar="NAME",
        help="a node's layers, without a pod; without a name this host's",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    targets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Gather, walk, and print; 1 when a step is broken.

    Raises:
        SettingError: neither a pod nor --node was given, or both.
        UnavailableError: the agent that was named does not answer.
    """
    if bool(arguments.pod) == bool(arguments.node):
        raise SettingError("Nothing to explain was named.", "Name NAMESPACE/POD, or give --node.")
    wanted = ""
    if arguments.pod:
        wanted = page.wanted_pod("/".join(targets.pod_of(arguments, arguments.pod)))
    report = walk(_evidence(arguments, wanted))
    if arguments.json:
        print(json.dumps(page.report_plain(report), indent=1))
    else:
        sys.stdout.write(cleaned(report_text(report)))  # an agent elsewhere may send anything
    return EXIT_FOUND if report.broken else EXIT_OK


def _evidence(arguments: argparse.Namespace, wanted: str) -> Evidence:
    given = settings.from_arguments(arguments, os.environ)
    token = read_token(given.listen.bearer_token_file)
    # A file alone is read without kubectl, which nodes often lack.
    asked = program.is_plugin() or arguments.context
    sources = of_command(
        given,
        kubeconfig=arguments.kubeconfig,
        config=targets.kubectl_of(arguments).config if asked else None,
        token=token,
        local=not program.is_plugin(),
    )
    if arguments.agent:
        seen = page.load_evidence(ask(arguments.agent, page.query_of(wanted), token))
        own = replace(sources, local=False)
        return page.joined(seen, look(wanted, own)) if wanted else seen
    if program.is_plugin() and arguments.node == HERE:
        raise SettingError("No node was named.", "Give --node NAME.")
    if arguments.node not in ("", HERE):
        with ending_in_order(), closing(targets.link_of(arguments, given, arguments.node)) as link:
            return page.load_evidence(link.ask(page.query_of("")))
    found = look(wanted, sources)
    if found.driver is not None or not found.node_name:
        return found
    try:
        link = targets.link_of(arguments, given, found.node_name)
        with ending_in_order(), closing(link):
            seen = page.load_evidence(link.ask(page.query_of(wanted)))
    except UnavailableError as error:
        why = f"it runs on {found.node_name}, and {reason(error)}"
        return replace(found, missing={**found.missing, **dict.fromkeys(NODE_SOURCES, why)})
    return page.joined(seen, found)
