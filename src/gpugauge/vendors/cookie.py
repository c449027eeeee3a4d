"""The uprobe cookie: a row of the function table in 64 bits (enum cookie of bpf/abi.h).

Linux hands the cookie to the program at each hit, so that a hit needs no
look-up to know what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.errors import GpugaugeError
from gpugauge.model import abi
from gpugauge.model.abi import Action, Family, Size, Slot, StreamDefault
from gpugauge.model.function import Function


class CookieError(GpugaugeError):
    """A row that does not fit the cookie, or a cookie that is no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """What a program reads from a cookie."""

    row: int
    """Position in the function table, from 1."""
    link: int
    """Which attached library: 0 to 63."""
    slot: Slot
    action: Action
    size: Size
    size_arg: int
    size_log2: int
    stream_arg: int
    stream_default: StreamDefault
    context_arg: int
    pointer_arg: int
    family: Family
    submits: bool
    blocks: bool
    returns: bool


FIELDS: dict[str, tuple[int, int]] = {
    "row": (abi.COOKIE_ROW_SHIFT, abi.COOKIE_ROW_BITS),
    "slot": (abi.COOKIE_SLOT_SHIFT, abi.COOKIE_SLOT_BITS),
    "action": (abi.COOKIE_ACTION_SHIFT, abi.COOKIE_ACTION_BITS),
    "size": (abi.COOKIE_SIZE_SHIFT, abi.COOKIE_SIZE_BITS),
    "size_arg": (abi.COOKIE_SIZE_ARG_SHIFT, abi.COOKIE_SIZE_ARG_BITS),
    "size_log2": (abi.COOKIE_SIZE_LOG2_SHIFT, abi.COOKIE_SIZE_LOG2_BITS),
    "stream_arg": (abi.COOKIE_STREAM_ARG_SHIFT, abi.COOKIE_STREAM_ARG_BITS),
    "stream_default": (abi.COOKIE_STREAM_DEFAULT_SHIFT, abi.COOKIE_STREAM_DEFAULT_BITS),
    "context_arg": (abi.COOKIE_CONTEXT_ARG_SHIFT, abi.COOKIE_CONTEXT_ARG_BITS),
    "pointer_arg": (abi.COOKIE_POINTER_ARG_SHIFT, abi.COOKIE_POINTER_ARG_BITS),
    "family": (abi.COOKIE_FAMILY_SHIFT, abi.COOKIE_FAMILY_BITS),
    "submits": (abi.COOKIE_SUBMITS_SHIFT, abi.COOKIE_SUBMITS_BITS),
    "blocks": (abi.COOKIE_BLOCKS_SHIFT, abi.COOKIE_BLOCKS_BITS),
    "returns": (abi.COOKIE_RETURNS_SHIFT, abi.COOKIE_RETURNS_BITS),
    "link": (abi.COOKIE_LINK_SHIFT, abi.COOKIE_LINK_BITS),
}
"""Field -> (first bit, width)."""

_KNOWN_BITS = sum(((1 << bits) - 1) << shift for shift, bits in FIELDS.values())


def pack(function: Function, row: int, link: int) -> int:
    """Return the cookie of a row in the link of one library.

    Args:
        function: The row.
        row: Its position in the table, from 1: a cookie of 0 means "no row".
        link: The number of the attached library.

    Raises:
        CookieError: A value does not fit its field.
    """
    if row == 0:
        raise CookieError(
            f"{function.symbol}: rows are counted from 1.", "Number the table from 1."
        )
    values = {name: getattr(function, name) for name in FIELDS if name not in ("row", "link")}
    cookie = 0
    for name, (shift, bits) in FIELDS.items():
        value = int({**values, "row": row, "link": link}[name])
        if not 0 <= value < 1 << bits:
            raise CookieError(
                f"{function.symbol}: {name} {value} does not fit {bits} bits of the cookie.",
                "Change the row in vendors/cuda, or the field in bpf/abi.h.",
            )
        cookie |= value << shift
    return cookie


def unpack(cookie: int) -> Cookie:
    """Return what a program reads from a cookie: for tests and for display.

    Raises:
        CookieError: The value is no cookie: a bit outside every field, or an
            enum that has no such member.
    """
    if cookie < 0 or cookie & ~_KNOWN_BITS:
        raise CookieError(f"{cookie:#x} is no cookie: it has bits outside every field.")
    value = {name: (cookie >> shift) & ((1 << bits) - 1) for name, (shift, bits) in FIELDS.items()}
    try:
        return Cookie(
            row=value["row"],
            link=value["link"],
            slot=Slot(value["slot"]),
            action=Action(value["action"]),
            size=Size(value["size"]),
            size_arg=value["size_arg"],
            size_log2=value["size_log2"],
            stream_arg=value["stream_arg"],
            stream_default=StreamDefault(value["stream_default"]),
            context_arg=value["context_arg"],
            pointer_arg=value["pointer_arg"],
            family=Family(value["family"]),
            submits=bool(value["submits"]),
            blocks=bool(value["blocks"]),
            returns=bool(value["returns"]),
        )
    except ValueError as error:
        raise CookieError(f"{cookie:#x} is no cookie: {error}.") from error
