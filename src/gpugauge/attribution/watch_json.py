"""The envelopes of the API server's lists and watches; what is inside stays raw."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gpugauge.errors import ForeignDataError

_T = TypeVar("_T")


class ListMeta(msgspec.Struct):
    """Where a list or an object stands in history, and how a list goes on."""

    resourceVersion: str = ""
    continue_: str | None = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Versioned(msgspec.Struct):
    """Any object, by its version only."""

    metadata: ListMeta


class ErrorStatus(msgspec.Struct):
    """The object of an ERROR event."""

    code: int = 0
    message: str = ""
    reason: str = ""


def decode(data: bytes | bytearray | msgspec.Raw, kind: type[_T], what: str) -> _T:
    """Return `data` as `kind`.

    Raises:
        ForeignDataError: It is not JSON of that shape.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ForeignDataError(f"The API server sent a malformed {what}: {error}.") from None
