"""A Snapshot as JSON and back, exactly.

Written from the types of the dataclasses, so that a field added to the model
needs nothing here. Enums go by name; a key of two parts is `LAUNCH/2`.

Reading is bounded and forgiving in one direction: fields and enum members that
this version does not know are passed over, so that an older reader reads a
newer recording of the same snapshot version. Everything else that is off is a
ForeignDataError.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpugauge.errors import ForeignDataError
from gpugauge.model.snapshot import SNAPSHOT_VERSION, Snapshot

LIMIT_BYTES = 64 * 1024 * 1024
LIMIT_ITEMS = 65_536
LIMIT_TEXT = 4096
LIMIT_INTEGER = 1 << 64
LIMIT_SHOWN = 120

Encoder = Callable[[Any], Any]
Decoder = Callable[[Any], Any]


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Return the snapshot as one line of JSON, without the line's end."""
    plain = _encoder(Snapshot)(snapshot)
    return json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()


def load_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot that these bytes hold.

    Raises:
        ForeignDataError: they are no snapshot, of another version, or beyond a bound.
    """
    if len(data) > LIMIT_BYTES:
        raise _off(f"a snapshot of {len(data)} bytes is over the limit of {LIMIT_BYTES}")
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _off(f"not JSON ({error})") from error
    version = plain.get("version") if isinstance(plain, dict) else None
    if version != SNAPSHOT_VERSION:
        raise _off(f"version {version!r} is not {SNAPSHOT_VERSION}, the one this gpugauge reads")
    snapshot = _decoder(Snapshot)(plain)
    assert isinstance(snapshot, Snapshot)  # noqa: S101 - for the type checker
    return snapshot


def to_plain(owner: type, value: Any) -> Any:
    """Return a dataclass of the model as what JSON can hold."""
    return _encoder(owner)(value)


def from_plain(owner: type, plain: Any) -> Any:
    """Return the dataclass of the model that parsed JSON holds.

    Raises:
        ForeignDataError: it does not, or is beyond a bound.
    """
    return _decoder(owner)(plain)


def _off(what: str) -> ForeignDataError:
    shown = what if len(what) <= LIMIT_SHOWN else what[: LIMIT_SHOWN - 3] + "..."
    return ForeignDataError(
        f"This is not a snapshot: {shown}.", "Take it from `gpugauge record` or /api/v1/snapshot."
    )


def _hints(owner: type) -> dict[str, Any]:
    return get_type_hints(owner, vars(sys.modules[owner.__module__]))


def _optional(hint: Any) -> Any | None:
    """Return X for `X | None`."""
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (part for part in get_args(hint) if part is not type(None))
        return inner
    return None


# ---- writing -----------------------------------------------------------------


@cache
def _encoder(hint: Any) -> Encoder:
    inner = _optional(hint)
    if inner is not None:
        encode_inner = _encoder(inner)
        return lambda value: None if value is None else encode_inner(value)
    if dataclasses.is_dataclass(hint):
        hints = _hints(hint)  # type: ignore[arg-type]
        fields = [(f.name, _encoder(hints[f.name])) for f in dataclasses.fields(hint)]
        return lambda value: {name: encode(getattr(value, name)) for name, encode in fields}
    origin = get_origin(hint)
    if origin is tuple:
        encode_item = _encoder(get_args(hint)[0])
        return lambda value: [encode_item(item) for item in value]
    if origin is Mapping:
        key_hint, value_hint = get_args(hint)
        encode_value, encode_key = _encoder(value_hint), _key_encoder(key_hint)
        return lambda table: {encode_key(key): encode_value(item) for key, item in table.items()}
    if issubclass(hint, Enum):
        return lambda value: value.name
    return lambda value: value


def _key_encoder(hint: Any) -> Callable[[Any], str]:
    if get_origin(hint) is tuple:
        return lambda key: f"{key[0].name}/{key[1]}"
    if issubclass(hint, Enum):
        return lambda key: key.name
    return lambda key: key


# ---- reading -----------------------------------------------------------------


@cache
def _decoder(hint: Any) -> Decoder:
    inner = _optional(hint)
    if inner is not None:
        decode_inner = _decoder(inner)
        return lambda value: None if value is None else decode_inner(value)
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(hint)  # type: ignore[arg-type]
    origin = get_origin(hint)
    if origin is tuple:
        return _tuple_decoder(hint)
    if origin is Mapping:
        return _mapping_decoder(hint)
    if issubclass(hint, Enum):
        return _enum_decoder(hint)
    return _scalar_decoder(hint)


def _dataclass_decoder(owner: type) -> Decoder:
    hints = _hints(owner)
    fields = [(f.name, _decoder(hints[f.name]), _required(f)) for f in dataclasses.fields(owner)]

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _off(f"{owner.__name__} is {value!r}")
        given = {}
        for name, decode_field, required in fields:
            if name in value:
                given[name] = decode_field(value[name])
            elif required:
                raise _off(f"{owner.__name__} has no {name}")
        return owner(**given)

    return decode


def _required(entry: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return entry.default is missing and entry.default_factory is missing


def _tuple_decoder(hint: Any) -> Decoder:
    decode_item = _decoder(get_args(hint)[0])

    def decode(value: Any) -> Any:
        if not isinstance(value, list) or len(value) > LIMIT_ITEMS:
            raise _off(f"a list is {value!r:.40}")
        return tuple(decode_item(item) for item in value)

    return decode


def _mapping_decoder(hint: Any) -> Decoder:
    key_hint, value_hint = get_args(hint)
    decode_key, decode_value = _key_decoder(key_hint), _decoder(value_hint)

    def decode(value: Any) -> Any:
        if not isinstance(value, dict) or len(value) > LIMIT_ITEMS:
            raise _off(f"a table is {value!r:.40}")
        pairs = ((decode_key(key), item) for key, item in value.items())
        return {key: decode_value(item) for key, item in pairs if key is not None}

    return decode


def _key_decoder(hint: Any) -> Callable[[str], Any]:
    """Return a reader of keys; it answers None for an enum member of a newer version."""
    if get_origin(hint) is tuple:
        member_type = get_args(hint)[0]

        def decode_pair(key: str) -> Any:
            name, slash, number = key.rpartition("/")
            if not slash or len(number) > 20 or not number.removeprefix("-").isdecimal():
                raise _off(f"a key is {key!r:.40}")
            member = member_type.__members__.get(name)
            return None if member is None else (member, int(number))

        return decode_pair
    if issubclass(hint, Enum):
        members: Mapping[str, Any] = hint.__members__
        return members.get
    return _scalar_decoder(hint)


def _enum_decoder(hint: type[Enum]) -> Decoder:
    def decode(value: Any) -> Any:
        if not isinstance(value, str) or value not in hint.__members__:
            raise _off(f"{hint.__name__} is {value!r:.40}")
        return hint.__members__[value]

    return decode


def _scalar_decoder(hint: Any) -> Decoder:
    def decode(value: Any) -> Any:
        if hint is float and type(value) is int and abs(value) < LIMIT_INTEGER:
            return float(value)
        if type(value) is not hint:
            raise _off(f"{value!r:.40} is not a value of type {hint.__name__}")
        if hint is int and abs(value) >= LIMIT_INTEGER:
            raise _off("a number is beyond 64 bits")
        if hint is str and len(value) > LIMIT_TEXT:
            raise _off(f"a text has {len(value)} characters")
        if hint is float and not -1e300 < value < 1e300:  # also refuses NaN
            raise _off(f"a number is {value}")
        return value

    return decode
