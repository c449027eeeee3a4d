"""Sites in function entries: real encodings, and the rules as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.codec.x86 import WINDOW_BYTES, Entry, choose_site
from gpugauge.model.library import SiteKind

GUARD = bytes.fromhex("813d44332211 00ba1c32")  # cmpl $0x321cba00, 0x11223344(%rip)
ENDBR64 = bytes.fromhex("f30f1efa")
JE = bytes.fromhex("7406")
TAIL = bytes.fromhex("ff2578563412")  # jmp *0x12345678(%rip)

LEGAL = [
    # The two shapes of the driver, and each behind endbr64.
    ("push rbp, driver 580", "554889e54157", SiteKind.PUSH, 0),
    ("cmpl; je, drivers 470 to 555", (GUARD + JE + TAIL).hex(), SiteKind.JUMP, 10),
    ("endbr64; push rbp", "f30f1efa554889e5", SiteKind.PUSH, 4),
    ("endbr64; cmpl; je", (ENDBR64 + GUARD + JE + TAIL).hex(), SiteKind.JUMP, 14),
    ("cmpl; je; movzx; jmp", (GUARD + JE).hex() + "0fb6ff" + TAIL.hex(), SiteKind.JUMP, 10),
    ("cmpl; je rel32", GUARD.hex() + "0f8400010000", SiteKind.JUMP, 10),
    # Each push that Linux emulates.
    *((f"push {r}", f"{0x50 + r:02x}c3", SiteKind.PUSH, 0) for r in range(8)),
    *((f"push r{8 + r}", f"41{0x50 + r:02x}c3", SiteKind.PUSH, 0) for r in range(8)),
    # Each condition, short and long.
    *((f"jcc {c}", f"{0x70 + c:02x}10", SiteKind.JUMP, 0) for c in range(16)),
    *((f"jcc {c} near", f"0f{0x80 + c:02x}00010000", SiteKind.JUMP, 0) for c in range(16)),
    ("jmp rel8", "eb10", SiteKind.JUMP, 0),
    ("jmp rel32", "e900100000", SiteKind.JUMP, 0),
    ("jmp rel32 to a function before", "e900f0ffff", SiteKind.JUMP, 0),
    ("nop", "90c3", SiteKind.NOP, 0),
    # Harmless instructions before a push: each encoding and its length.
    ("cmp %edi,(%rsi)", "393e55", SiteKind.PUSH, 2),
    ("cmp %al,%cl", "38c155", SiteKind.PUSH, 2),
    ("cmp (%rdi),%al", "3a0755", SiteKind.PUSH, 2),
    ("cmp (%rdi,%rax,4),%ecx", "3b0c8755", SiteKind.PUSH, 3),
    ("cmp 8(%rdi),%rcx", "483b4f0855", SiteKind.PUSH, 4),
    ("cmp 0x100(%rsp),%rcx", "483b8c240001000055", SiteKind.PUSH, 8),
    ("cmp 0x1000,%ecx without base", "3b0c250010000055", SiteKind.PUSH, 7),
    ("cmp 0(%r13),%ecx", "413b4d0055", SiteKind.PUSH, 4),
    ("cmp (%r12),%ecx", "413b0c2455", SiteKind.PUSH, 4),
    ("cmp 0x10(%rip),%rcx", "483b0d1000000055", SiteKind.PUSH, 7),
    ("cmp $1,%al", "3c0155", SiteKind.PUSH, 2),
    ("cmp $0x10000,%eax", "3d0000010055", SiteKind.PUSH, 5),
    ("cmp $0x100,%ax", "663d000155", SiteKind.PUSH, 4),
    ("cmpb $0,0x10(%rip)", "803d100000000055", SiteKind.PUSH, 7),
    ("cmpw $0x100,(%rdi)", "66813f000155", SiteKind.PUSH, 5),
    ("cmpq $0x100,%rdi", "4881ff0001000055", SiteKind.PUSH, 7),
    ("data16 rex.w cmpq $0x100,%rdi", "664881ff0001000055", SiteKind.PUSH, 8),
    ("cmpl $1,(%rdi)", "833f0155", SiteKind.PUSH, 3),
    ("test %rdi,%rdi", "4885ff55", SiteKind.PUSH, 3),
    ("test %al,(%rsp)", "84042455", SiteKind.PUSH, 3),
    ("test $1,%al", "a80155", SiteKind.PUSH, 2),
    ("test $1,%eax", "a90100000055", SiteKind.PUSH, 5),
    ("testb $1,8(%rdi)", "f647080155", SiteKind.PUSH, 4),
    ("testl $1,%edi", "f7c70100000055", SiteKind.PUSH, 6),
    # Long nops are passed over: Linux emulates them from 6.18 only.
    ("xchg %ax,%ax", "669055", SiteKind.PUSH, 2),
    ("nop3", "0f1f0055", SiteKind.PUSH, 3),
    ("nop4", "0f1f400055", SiteKind.PUSH, 4),
    ("nop5", "0f1f44000055", SiteKind.PUSH, 5),
    ("nop6", "660f1f44000055", SiteKind.PUSH, 6),
    ("nop7", "0f1f800000000055", SiteKind.PUSH, 7),
    ("nop8", "0f1f84000000000055", SiteKind.PUSH, 8),
    ("nop10", "662e0f1f84000000000055", SiteKind.PUSH, 10),
    ("nop11", "66662e0f1f84000000000055", SiteKind.PUSH, 11),
]

ILLEGAL = [
    ("ret", "c3"),
    ("sub $0x18,%rsp", "4883ec1855"),
    ("add to memory, the group of cmp", "83073155"),
    ("and $-16,%rsp, the group of cmp", "4883e4f055"),
    ("cmp in 81 is /7 only: xor", "81f70001000055"),
    ("not %edi, the group of test", "f7d755"),
    ("mov %rdi,%rax", "4889f855"),
    ("lea 8(%rsp),%r10", "4c8d54240855"),
    ("xor %eax,%eax", "31c055"),
    ("movzx %dil,%edi", "400fb6ff55"),
    ("call rel32", "e80000000055"),
    ("push $1", "6a0155"),
    ("push (%rdi)", "ff3755"),
    ("push with 16-bit operand", "6655"),
    ("push under REX.W, refused by Linux", "4855"),
    ("pop", "5855"),
    ("int3", "cc55"),
    ("jmp *%rax", "ffe055"),
    ("bnd jmp", "f2e900100000"),
    ("lock cmp", "f0393e55"),
    ("rep nop (pause)", "f39055"),
    ("cmp through %fs", "64393e55"),
    ("rdsspq, not endbr64", "f3480f1ec855"),
    ("hinted jne", "3e7510"),
    ("loop to the entry", "ebfe"),
    ("je back into the entry", (GUARD + bytes.fromhex("74f4")).hex()),
    ("cmp cut short", "813d44"),
    ("prefix only", "66"),
    ("rex only", "48"),
    ("jump cut short", "0f84000000"),
    ("nothing", ""),
    ("zeros", "00" * 32),
    ("only nops of 5 bytes", "0f1f440000" * 6),
]


@pytest.mark.parametrize(("name", "code", "kind", "offset"), LEGAL, ids=[row[0] for row in LEGAL])
def test_the_first_emulated_instruction_is_chosen(
    name: str, code: str, kind: SiteKind, offset: int
) -> None:
    assert choose_site(bytes.fromhex(code)) == Entry(kind, offset)


@pytest.mark.parametrize(("name", "code"), ILLEGAL, ids=[row[0] for row in ILLEGAL])
def test_no_site_comes_with_its_reason(name: str, code: str) -> None:
    entry = choose_site(bytes.fromhex(code))
    assert (entry.kind, entry.offset) == (SiteKind.NONE, 0)
    assert entry.reason


def test_a_reason_names_the_byte_and_its_place() -> None:
    assert "0x89 at +5" in choose_site(bytes.fromhex("f30f1efa4889f855")).reason


HARMLESS = st.sampled_from(
    [ENDBR64, GUARD]
    + [bytes.fromhex(code) for code in ("4885ff", "833f01", "0f1f440000", "6690", "3c01")]
)
SITE = st.sampled_from([bytes.fromhex(code) for code in ("55", "4157", "7410", "0f8500010000")])
MODIFIES = st.sampled_from(
    [bytes.fromhex(code) for code in ("4889f8", "4883ec18", "c7070100", "31ff", "5f", "ff3f")]
)


@given(st.lists(HARMLESS, max_size=8), SITE, st.binary(max_size=32))
def test_a_site_is_found_exactly_when_it_ends_inside_the_window(
    before: list[bytes], site: bytes, after: bytes
) -> None:
    prefix = b"".join(before)
    entry = choose_site(prefix + site + after)
    if len(prefix) + len(site) <= WINDOW_BYTES:
        assert (entry.kind is not SiteKind.NONE, entry.offset) == (True, len(prefix))
    elif len(prefix) >= WINDOW_BYTES:
        assert entry.kind is SiteKind.NONE


@given(st.lists(HARMLESS, max_size=8), MODIFIES, st.binary(max_size=32))
def test_nothing_is_chosen_behind_an_instruction_that_changes_state(
    before: list[bytes], modifies: bytes, after: bytes
) -> None:
    assert choose_site(b"".join(before) + modifies + after).kind is SiteKind.NONE


@given(st.binary(max_size=64))
def test_any_bytes_give_a_choice_within_the_rules(code: bytes) -> None:
    entry = choose_site(code)
    if entry.kind is SiteKind.NONE:
        assert entry.reason
        assert entry.offset == 0
        return
    assert 0 <= entry.offset < min(WINDOW_BYTES, len(code))
    first = code[entry.offset]
    second = code[entry.offset + 1] if entry.offset + 1 < len(code) else 0
    emulated = {
        SiteKind.PUSH: 0x50 <= first <= 0x57 or (first == 0x41 and 0x50 <= second <= 0x57),
        SiteKind.NOP: first == 0x90,
        SiteKind.JUMP: first in (0xEB, 0xE9)
        or 0x70 <= first <= 0x7F
        or (first == 0x0F and 0x80 <= second <= 0x8F),
    }
    assert emulated[entry.kind]
    # Bytes that start no allow-listed instruction can only be the site itself.
    if entry.offset:
        assert not 0x50 <= code[0] <= 0x57


@given(st.binary(min_size=32, max_size=64), st.binary(max_size=64))
def test_bytes_beyond_the_window_change_nothing(code: bytes, other: bytes) -> None:
    assert choose_site(code[:32]) == choose_site(code[:32] + other)
