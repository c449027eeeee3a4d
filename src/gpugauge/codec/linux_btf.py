"""Linux's own BTF: ids of its functions, and where members of its structs lie.

It has some 150,000 types of different lengths, so that finding one means
stepping over all before it. These loops do that and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection

from gpugauge.codec.btf import EXTRA_BYTES, Kind, bounds
from gpugauge.errors import ForeignDataError


def function_ids(data: bytes, names: Collection[str]) -> dict[str, int]:
    """Return the type ids of named functions in Linux's own BTF; unknown names are left out.

    Ids are positions in a list of types of different lengths, so all types
    before the last name have to be stepped over: about 150,000. This loop
    does that and nothing else.

    Args:
        data: /sys/kernel/btf/vmlinux.
        names: Function names.

    Raises:
        ForeignDataError: Not BTF, or cut off.
    """
    types, end, strings, strings_end = bounds(data)
    wanted: dict[int, str] = {}
    for name in names:
        at = data.find(b"\0" + name.encode() + b"\0", strings, strings_end)
        if at >= 0:
            wanted[at + 1 - strings] = name
    found: dict[str, int] = {}
    if not wanted:
        return found
    whole = len(data) - len(data) % 4
    words = memoryview(data)[:whole].cast("I")
    fixed = [0] * 32
    each = [0] * 32
    for kind, (fixed_bytes, each_bytes) in EXTRA_BYTES.items():
        fixed[kind], each[kind] = 3 + fixed_bytes // 4, each_bytes // 4
    function = int(Kind.FUNCTION)
    position, last, type_id = types // 4, end // 4, 1
    try:
        while position < last:
            info = words[position + 1]
            kind = info >> 24 & 31
            if kind == function:
                name_offset = words[position]
                if name_offset in wanted:
                    found.setdefault(wanted[name_offset], type_id)
                    if len(found) == len(wanted):
                        break
                position += 3
            else:
                step = fixed[kind]
                if not step:
                    raise ForeignDataError(f"BTF type {type_id} is of unknown kind {kind}.")
                many = each[kind]
                position += step + many * (info & 0xFFFF) if many else step
            type_id += 1
    except IndexError:
        raise ForeignDataError("The last BTF type is cut off.") from None
    finally:
        words.release()
    return found


def _words(kind: int) -> tuple[int, int]:
    """Return how many words a type of this kind has: fixed, and by member; 0 for no kind."""
    if kind not in EXTRA_BYTES:
        return 0, 0
    fixed_bytes, each_bytes = EXTRA_BYTES[kind]
    return 3 + fixed_bytes // 4, each_bytes // 4


def member_offset(data: bytes, struct_name: str, member_name: str) -> int | None:
    """Return the offset in bytes of a direct member of a named struct in Linux's own BTF.

    As `function_ids`, this steps over all types before the struct and does nothing else.

    Returns:
        None where there is no such struct or member, or where it is a bit field.

    Raises:
        ForeignDataError: Not BTF, or cut off.
    """
    types, end, strings, strings_end = bounds(data)
    names = {}
    for name in (struct_name, member_name):
        at = data.find(b"\0" + name.encode() + b"\0", strings, strings_end)
        if at < 0:
            return None
        names[name] = at + 1 - strings
    wanted, member = names[struct_name], names[member_name]
    sizes = [_words(kind) for kind in range(32)]
    words = memoryview(data)[: len(data) - len(data) % 4].cast("I")
    position, last = types // 4, end // 4
    try:
        while position < last:
            info = words[position + 1]
            kind, count = info >> 24 & 31, info & 0xFFFF
            if kind == Kind.STRUCT and words[position] == wanted and count:
                for at in range(position + 3, position + 3 + 3 * count, 3):
                    if words[at] == member:
                        bits = words[at + 2] & (0xFFFFFF if info >> 31 else 0xFFFFFFFF)
                        return None if bits % 8 else bits // 8
                return None
            fixed, each = sizes[kind]
            if not fixed:
                raise ForeignDataError(f"A BTF type is of unknown kind {kind}.")
            position += fixed + each * count
    except IndexError:
        raise ForeignDataError("The last BTF type is cut off.") from None
    finally:
        words.release()
    return None
