"""The settings as flags of a command."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping

from gpugauge.settings.catalog import catalog
from gpugauge.settings.load import load
from gpugauge.settings.tree import Settings
from gpugauge.settings.values import expected


def add_flags(parser: argparse.ArgumentParser, *, only: Collection[str] = ()) -> None:
    """Give a command settings as flags, and `--settings FILE`.

    Args:
        parser: Of the command.
        only: Keys of those that bear on it (`listen_port`); empty for every setting.
    """
    group = parser.add_argument_group("settings", "docs/settings.md tells more about each.")
    group.add_argument("--settings", metavar="FILE", default="", help="a TOML file of settings")
    for setting in catalog():
        if only and setting.key not in only:
            continue
        group.add_argument(
            setting.flag,
            dest=f"setting_{setting.key}",
            metavar=setting.name.upper(),
            help=f"{expected(setting)}; default {default_text(setting.default)}".replace("%", "%%"),
        )


def from_arguments(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Return the settings that a parsed command line, the environment and the file give.

    Raises:
        SettingError: an unknown name, a bad value, or an unreadable file.
    """
    given = {
        setting.key: text
        for setting in catalog()
        if (text := getattr(arguments, f"setting_{setting.key}", None)) is not None
    }
    return load(given, environ, getattr(arguments, "settings", ""))


def default_text(default: object) -> str:
    """Return a default as a person would type it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(default) or "none"
    if isinstance(default, Mapping):
        return "none"
    return str(default) if str(default) else "none"
