"""One value from text or TOML, checked against its setting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, get_origin

from gpugauge.errors import SettingError
from gpugauge.settings.catalog import Setting

TEXT_LIMIT = 4096
TRUE, FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


def from_text(setting: Setting, text: str, where: str) -> Any:
    """Return the value that a flag or a variable holds.

    Raises:
        SettingError: it is not a value of this setting.
    """
    if setting.type is bool:
        word = text.strip().lower()
        if word not in TRUE + FALSE:
            raise _refused(setting, text, where)
        return word in TRUE
    if setting.type in (int, float):
        try:
            number = setting.type(text)
        except ValueError:
            raise _refused(setting, text, where) from None
        return from_toml(setting, number, where)
    if setting.type == tuple[str, ...]:
        return from_toml(setting, [part for part in text.split(",") if part.strip()], where)
    if get_origin(setting.type) is Mapping:
        table = {}
        for part in filter(None, text.split(",")):
            name, equals, price = part.rpartition("=")
            try:
                table[name.strip()] = float(price)
            except ValueError:
                raise _refused(setting, text, where) from None
            if not equals:
                raise _refused(setting, text, where)
        return from_toml(setting, table, where)
    return from_toml(setting, text, where)


def from_toml(setting: Setting, value: Any, where: str) -> Any:
    """Return the value that a settings file holds, in the setting's own type.

    Raises:
        SettingError: it is not a value of this setting.
    """
    kind = setting.type
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return _within(setting, value, where)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _within(setting, float(value), where)
    if kind is str and _is_text(value) and _is_formed(setting, value):
        return value
    if isinstance(kind, type) and issubclass(kind, StrEnum) and value in list(kind):
        return kind(value)
    if kind == tuple[str, ...] and isinstance(value, list) and all(map(_is_text, value)):
        return tuple(part.strip() for part in value)
    if get_origin(kind) is Mapping and isinstance(value, Mapping) and _is_price_table(value):
        return {name: float(price) for name, price in value.items()}
    raise _refused(setting, value, where)


def expected(setting: Setting) -> str:
    """Say what a value of this setting looks like."""
    kind = setting.type
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "one of " + ", ".join(kind)
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        word = "a whole number" if kind is int else "a number"
        return word if setting.low is None else f"{word} from {setting.low:g} to {setting.high:g}"
    if kind == tuple[str, ...]:
        return "a list of texts (in a flag or variable: separated by commas)"
    if get_origin(kind) is Mapping:
        return "a table of amounts (in a flag or variable: NAME=AMOUNT, separated by commas)"
    return setting.form or "a text"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= TEXT_LIMIT and "\0" not in value


def _is_formed(setting: Setting, text: str) -> bool:
    return not setting.pattern or re.fullmatch(setting.pattern, text) is not None


def _is_price_table(table: Mapping[Any, Any]) -> bool:
    return all(
        _is_text(name)
        and name
        and isinstance(price, int | float)
        and not isinstance(price, bool)
        and math.isfinite(price)
        and price >= 0
        for name, price in table.items()
    )


def _within(setting: Setting, number: float, where: str) -> float:
    if setting.low is None or setting.high is None:
        return number
    if not (setting.low <= number <= setting.high):  # also refuses NaN
        raise _refused(setting, number, where)
    return number


def _refused(setting: Setting, value: object, where: str) -> SettingError:
    shown = str(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return SettingError(
        f"{where} is {shown!r}, which is not a value of this setting.",
        f"Give {expected(setting)}; docs/settings.md tells what it means.",
    )
