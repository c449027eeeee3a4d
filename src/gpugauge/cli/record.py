"""`gpugauge record FILE`: snapshots into a file, one a line."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gpugauge import settings
from gpugauge.codec.recording import DEFAULT_LIMIT_BYTES
from gpugauge.errors import SettingError
from gpugauge.units import MIB

HELP = "Record a snapshot at every tick into a file, for diagnosis elsewhere or later"
EXAMPLES = """\
examples:
  sudo gpugauge record node-7.jsonl.gz                     # until ^C; .gz compresses
  sudo gpugauge record node-7.jsonl.gz --for-seconds 600
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, its limits and every setting as a flag."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file")
    parser.add_argument(
        "--limit-mib",
        type=int,
        default=DEFAULT_LIMIT_BYTES // MIB,
        metavar="MIB",
        help="stop at this size; default %(default)s",
    )
    parser.add_argument(
        "--for-seconds",
        type=float,
        default=None,
        metavar="SECONDS",
        help="stop after this time; default: at a signal",
    )
    settings.add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record until a limit or a signal."""
    if arguments.limit_mib < 1 or (arguments.for_seconds is not None and arguments.for_seconds < 0):
        raise SettingError(
            "A limit of a recording is below its least.", "Give at least 1 MiB, 0 s."
        )
    given = settings.from_arguments(arguments, os.environ)
    from gpugauge.agent.recorder import record

    return record(
        given,
        arguments.file,
        limit_bytes=arguments.limit_mib * MIB,
        for_seconds=arguments.for_seconds,
    )
