"""The code that the proof at start probes: both entry shapes of drivers, and a strict caller.

x86-64 machine code, our own. Each function returns its argument plus 457. The
caller takes (function, count), calls it with count, count - 1, ... 1, and returns how
often the answer, the stack pointer, rbx or r15 was wrong (a lost rbp or r12-r14 crashes it).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """An entry shape: where the function begins, and where it is probed."""

    name: str
    entry: int
    site: int


PUSH = Shape("push", 0x00, 0x00)
JUMP = Shape("je", 0x10, 0x1A)
SHAPES = (PUSH, JUMP)
CALLER = 0x30

CODE = bytes.fromhex(
    # push: the entry of driver 580.
    "53"  #                  push rbx
    "488d9fc9010000"  #      lea rbx, [rdi + 457]
    "4889d8"  #              mov rax, rbx
    "5b"  #                  pop rbx
    "c3"  #                  ret
    "cccccc"
    # je: the entry of drivers 470 to 555.
    "813d96000000"  #        cmp dword [rip + 0x96], 0x321cba00
    "00ba1c32"
    "7406"  #                je +6
    "ff2596000000"  #        jmp [rip + 0x96]
    "488d87c9010000"  #      lea rax, [rdi + 457]
    "c3"  #                  ret
    "cccccccccccc"
    # The caller.
    "53554154415541564157"  # push rbx, rbp, r12, r13, r14, r15
    "4883ec08"  #            sub rsp, 8
    "4989fc"  #              mov r12, rdi
    "4989f5"  #              mov r13, rsi
    "4531f6"  #              xor r14d, r14d
    "4889e5"  #              mov rbp, rsp
    "48bb11baddE0b11aca05"  # mov rbx, 0x5ca1ab1e0ddba11
    "4989df"  #              mov r15, rbx
    "49f7d7"  #              not r15
    "4d85ed"  #              test r13, r13
    "743e"  #                je done
    "4c89ef"  #              mov rdi, r13
    "41ffd4"  #              call r12
    "4c29e8"  #              sub rax, r13
    "482dc9010000"  #        sub rax, 457
    "4889e1"  #              mov rcx, rsp
    "4829e9"  #              sub rcx, rbp
    "4809c8"  #              or rax, rcx
    "48b911baddE0b11aca05"  # mov rcx, 0x5ca1ab1e0ddba11
    "4831d9"  #              xor rcx, rbx
    "4809c8"  #              or rax, rcx
    "4c89f9"  #              mov rcx, r15
    "48f7d1"  #              not rcx
    "4831d9"  #              xor rcx, rbx
    "4809c8"  #              or rax, rcx
    "7403"  #                je right
    "49ffc6"  #              inc r14
    "49ffcd"  #              right: dec r13
    "ebbd"  #                jmp test
    "4c89f0"  #              done: mov rax, r14
    "4883c408"  #            add rsp, 8
    "415f415e415d415c5d5b"  # pop r15, r14, r13, r12, rbp, rbx
    "c3"  #                  ret
    "cc"
    # What the je shape compares and, never, jumps to.
    "00ba1c3200000000"
    "0000000000000000"
)
