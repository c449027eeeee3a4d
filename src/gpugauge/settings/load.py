"""Settings from flags, variables and a file: a flag wins over a variable, both over the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpugauge.errors import SettingError
from gpugauge.settings.catalog import Setting, catalog, sections
from gpugauge.settings.tree import Settings
from gpugauge.settings.values import from_text, from_toml

FILE_LIMIT_BYTES = 1024 * 1024
FILE_VARIABLE = "GPUGAUGE_SETTINGS"
SIMULATOR_PREFIX = "GPUGAUGE_SIM_"
"""Variables of the simulated driver, which the agent's environment may have too."""

# Kubernetes puts such variables into every pod of a namespace that has a Service named
# gpugauge (enableServiceLinks): they are not settings.
_SERVICE_LINK = re.compile(
    r"GPUGAUGE(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def load(
    flags: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str = "",
) -> Settings:
    """Return the settings of this run.

    Args:
        flags: texts by setting key (`attach_mode`), those given on the command line.
        environ: the environment; only GPUGAUGE_* is read.
        file: path of a TOML file; else GPUGAUGE_SETTINGS names it, else there is none.

    Raises:
        SettingError: an unknown name, a bad value, or an unreadable file.
    """
    flags, environ = flags or {}, environ or {}
    by_key = {setting.key: setting for setting in catalog()}
    values: dict[str, Any] = {}
    path = file or environ.get(FILE_VARIABLE, "")
    if path:
        values |= _file_values(Path(path))
    values |= _environment_values(environ)
    for key, text in flags.items():
        setting = by_key.get(key) or _unknown(f"--{key.replace('_', '-')}", key, by_key)
        values[key] = from_text(setting, text, f"The flag {setting.flag}")
    return build(values)


def build(values: Mapping[str, Any]) -> Settings:
    """Return the tree with these values, by setting key, over the defaults."""
    parts: dict[str, dict[str, Any]] = {name: {} for name in ("", *sections())}
    for setting in catalog():
        if setting.key in values:
            parts[setting.section][setting.name] = values[setting.key]
    built = {name: owner(**parts[name]) for name, owner in sections().items()}
    return Settings(**parts[""], **built)


def _environment_values(environ: Mapping[str, str]) -> dict[str, Any]:
    by_variable = {setting.variable: setting for setting in catalog()}
    values = {}
    for name, text in environ.items():
        if not name.startswith("GPUGAUGE_") or name == FILE_VARIABLE:
            continue
        if name.startswith(SIMULATOR_PREFIX):
            continue
        setting = by_variable.get(name)
        if _SERVICE_LINK.fullmatch(name) and (setting is None or _SERVICE_ADDRESS.match(text)):
            continue
        if setting is None:
            _unknown(f"The variable {name}", name, by_variable)
        else:
            values[setting.key] = from_text(setting, text, f"The variable {name}")
    return values


def _file_values(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise SettingError(
            f"The settings file {path} cannot be read: {error.strerror}.", "Check the path."
        ) from error
    if len(data) > FILE_LIMIT_BYTES:
        raise SettingError(f"The settings file {path} is larger than 1 MiB.", "Check the path.")
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(
            f"The settings file {path} is not TOML: {error}.", "docs/settings.md shows its form."
        ) from error
    known = {(setting.section, setting.name): setting for setting in catalog()}
    values: dict[str, Any] = {}
    for section, name, value in _entries(table):
        setting = known.get((section, name))
        shown = f"{section}.{name}" if section else name
        if setting is None:
            names = {f"{s}.{n}" if s else n: entry for (s, n), entry in known.items()}
            setting = _unknown(f"{shown} in {path}", shown, names)
        values[setting.key] = from_toml(setting, value, f"{shown} in {path}")
    return values


def _entries(table: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    entries = []
    for name, value in table.items():
        if isinstance(value, dict) and name in sections():
            entries += [(name, inner, item) for inner, item in value.items()]
        else:
            entries.append(("", name, value))
    return entries


def _unknown(shown: str, name: str, known: Mapping[str, Setting]) -> Setting:
    close = get_close_matches(name, list(known), n=1)
    hint = f"Did you mean {close[0]}?" if close else "docs/settings.md lists all settings."
    raise SettingError(f"{shown[:160]} is not a setting.", hint)
