"""Where a function may be probed: a decoder of x86-64 function entries.

The site is the first instruction that Linux emulates, reached from the symbol
in a straight line through instructions that change nothing but flags. Linux
emulates, per `arch/x86/kernel/uprobes.c` since 4.17: `push` of a register,
`jcc` and `jmp` with a relative target, and the one-byte `nop`. Everything else
is single-stepped out of line, which costs a second trap.

Longer nops are passed over and never chosen: they are emulated from Linux 6.18
only, and there the five-byte one is optimized into a call below the stack
pointer. `call` is emulated too, but is no shape of a driver's entry.

A return probe replaces the word at the stack pointer when the site is hit, so
that word must still be the return address: a `push` may be the site, and ends
the search.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.model.library import SiteKind

WINDOW_BYTES = 32
"""How far from the symbol a site may end."""

_LONGEST_BYTES = 15  # the limit of the architecture for one instruction
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_OPERAND_SIZE = 0x66
_CS_SEGMENT = 0x2E  # assemblers pad long nops with it
_CMP_TEST_MODRM = frozenset((0x38, 0x39, 0x3A, 0x3B, 0x84, 0x85))
_CMP_TEST_IMM8 = frozenset((0x3C, 0xA8))
_CMP_TEST_IMM32 = frozenset((0x3D, 0xA9))
# Opcode -> (the /digit of ModRM, size of the immediate; 4 shrinks to 2 under 0x66).
_GROUPS = {0x80: (7, 1), 0x81: (7, 4), 0x83: (7, 1), 0xF6: (0, 1), 0xF7: (0, 4)}


@dataclass(frozen=True, slots=True)
class Entry:
    """The choice for one function entry."""

    kind: SiteKind
    offset: int
    """Bytes from the symbol; 0 where kind is NONE."""
    reason: str = ""
    """Why there is no legal site."""


class _Stop(Exception):
    """The straight line ends here; the text says why."""


def choose_site(code: bytes) -> Entry:
    """Choose the place to probe in the first bytes of a function.

    Args:
        code: The function's bytes, from its symbol to at most its end or the
            next symbol, whichever comes first. Bytes after WINDOW_BYTES are not read.

    Returns:
        The first legal site, or kind NONE with the reason. Never raises.
    """
    window = bytes(code[:WINDOW_BYTES])
    at = 0
    try:
        while at < len(window):
            site = _site_at(window, at)
            if site is not None:
                return site
            at += _harmless_length(window, at)
    except _Stop as stop:
        return Entry(SiteKind.NONE, 0, str(stop))
    if not window:
        return Entry(SiteKind.NONE, 0, "the function has no bytes in the file")
    return Entry(SiteKind.NONE, 0, f"no emulated instruction within {len(window)} bytes")


def _site_at(window: bytes, at: int) -> Entry | None:
    """The site if the instruction at `at` is one that Linux emulates, else None."""
    first = window[at]
    if 0x50 <= first <= 0x57:
        return Entry(SiteKind.PUSH, at)
    if first == 0x41 and at + 1 < len(window) and 0x50 <= window[at + 1] <= 0x57:
        return Entry(SiteKind.PUSH, at)  # r8..r15; no other REX is accepted by Linux
    if first == 0x90:
        return Entry(SiteKind.NOP, at)
    length, displacement_bytes = 0, 0
    if 0x70 <= first <= 0x7F or first == 0xEB:
        length, displacement_bytes = 2, 1
    elif first == 0xE9:
        length, displacement_bytes = 5, 4
    elif first == 0x0F and at + 1 < len(window) and 0x80 <= window[at + 1] <= 0x8F:
        length, displacement_bytes = 6, 4
    if not length:
        return None
    end = at + length
    if end > len(window):
        raise _Stop(f"a jump at +{at} crosses the end of the window")
    displacement = int.from_bytes(window[end - displacement_bytes : end], "little", signed=True)
    if 0 <= end + displacement < end:
        # One call would then hit the site more than once.
        raise _Stop(f"the jump at +{at} goes back into the entry")
    return Entry(SiteKind.JUMP, at)


def _harmless_length(window: bytes, at: int) -> int:
    """Length of an allow-listed instruction: cmp, test, endbr64 or a long nop.

    Raises:
        _Stop: It is another instruction, or crosses the end of the window.
    """
    if window.startswith(_ENDBR64, at):
        return len(_ENDBR64)
    operand_size, padded, position = False, False, at
    while position < len(window) and window[position] in (_OPERAND_SIZE, _CS_SEGMENT):
        operand_size |= window[position] == _OPERAND_SIZE
        padded |= window[position] == _CS_SEGMENT or position > at
        position += 1
    rex = position < len(window) and 0x40 <= window[position] <= 0x4F
    wide = rex and bool(window[position] & 8)
    position += rex
    try:
        opcode = window[position]
        if opcode == 0x0F and window[position + 1] == 0x1F and not rex:
            end = _after_modrm(window, position + 2, digits=(0,))
        elif opcode == 0x90 and operand_size and not rex and not padded:
            end = position + 1
        elif padded:
            raise _Stop(_unknown(window, at))
        else:
            end = _after_compare(window, position, operand_size=operand_size and not wide)
    except IndexError:
        raise _Stop(f"the instruction at +{at} crosses the end of the window") from None
    if end > len(window) or end - at > _LONGEST_BYTES:
        raise _Stop(f"the instruction at +{at} crosses the end of the window")
    return end - at


def _after_compare(window: bytes, position: int, *, operand_size: bool) -> int:
    """Where the cmp or test whose opcode is at `position` ends."""
    opcode = window[position]
    imm32 = 2 if operand_size else 4
    if opcode in _CMP_TEST_MODRM:
        return _after_modrm(window, position + 1)
    if opcode in _CMP_TEST_IMM8:
        return position + 2
    if opcode in _CMP_TEST_IMM32:
        return position + 1 + imm32
    if opcode in _GROUPS:
        digit, immediate = _GROUPS[opcode]
        end = _after_modrm(window, position + 1, digits=(digit,))
        return end + (imm32 if immediate == 4 else immediate)
    raise _Stop(_unknown(window, position))


def _after_modrm(window: bytes, position: int, digits: tuple[int, ...] = ()) -> int:
    """Where the operand whose ModRM byte is at `position` ends (Intel SDM volume 2, table 2-2).

    Raises:
        _Stop: Its /digit makes it another instruction than those allowed.
    """
    modrm = window[position]
    mode, digit, base = modrm >> 6, modrm >> 3 & 7, modrm & 7
    if digits and digit not in digits:
        raise _Stop(_unknown(window, position - 1))
    end = position + 1
    if mode == 3:
        return end
    if base == 4:
        base = window[end] & 7  # the base of the SIB byte
        end += 1
    if mode == 1:
        return end + 1
    if mode == 2 or base == 5:
        return end + 4
    return end


def _unknown(window: bytes, position: int) -> str:
    return f"instruction byte {window[position]:#04x} at +{position} is not on the allow-list"
