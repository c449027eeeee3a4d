"""Write the entry stubs of every exported name, and the table that stands behind them.

The first instructions are what a probe meets, so they have the shape that the real library was
seen to have. Behind them every call passes one dispatcher, which counts it and hands on the
registers and eight words of stack arguments unharmed.
"""

from __future__ import annotations

from pathlib import Path

from sim.versions import BEFORE_INIT, since, split

SHAPES = ("push", "je")

HEAD = """\
\t.text
\t.hidden sim_enter
\t.hidden sim_leave
\t.hidden sim_gate
\t.type sim_dispatch, @function
sim_dispatch:
\tpush %rbp
\tmov %rsp, %rbp
\tpush %rbx
\tpush %r12
\tmov %r11d, %ebx
\tpush %rdi
\tpush %rsi
\tpush %rdx
\tpush %rcx
\tpush %r8
\tpush %r9
\tmov %ebx, %edi
\tcall sim_enter
\tmov %rax, %r11
\tpop %r9
\tpop %r8
\tpop %rcx
\tpop %rdx
\tpop %rsi
\tpop %rdi
\t.irp offset, 72, 64, 56, 48, 40, 32, 24, 16
\tpush \\offset(%rbp)
\t.endr
\tcall *%r11
\tmov %eax, %r12d
\tlea -16(%rbp), %rsp
\tmov %ebx, %edi
\tmov %eax, %esi
\tcall sim_leave
\tmov %r12d, %eax
\tpop %r12
\tpop %rbx
\tpop %rbp
\tret
\t.size sim_dispatch, .-sim_dispatch
"""

PUSH = """\
\tpush %rbp
\tmov %rsp, %rbp
\tpush %r12
\tsub $8, %rsp
\tcmpl $0x321cba00, sim_gate(%rip)
\tje .Lclosed
\tadd $8, %rsp
\tpop %r12
\tpop %rbp
\tjmp *.Lslot{index}(%rip)
"""

JE = """\
\tcmpl $0x321cba00, sim_gate(%rip)
\tje .Lclosed
\tjmp *.Lslot{index}(%rip)
"""

TAIL = """\
\t.section .text.closed,"ax",@progbits
.Lclosed:
\tud2
\t.bss
\t.globl sim_gate
\t.balign 4
sim_gate:
\t.zero 4
\t.section .note.GNU-stack,"",@progbits
"""


def assembly(symbols: list[str], shape: str) -> str:
    """Return the assembly of all stubs."""
    body = PUSH if shape == "push" else JE
    parts = [HEAD]
    for index, symbol in enumerate(symbols):
        parts.append(
            f"\t.text\n\t.balign 16\n\t.globl {symbol}\n\t.type {symbol}, @function\n{symbol}:\n"
            + body.format(index=index)
            + f"\t.size {symbol}, .-{symbol}\n"
            + f".Lenter{index}:\n\tmov ${index}, %r11d\n\tjmp sim_dispatch\n"
            + f"\t.data\n\t.balign 8\n.Lslot{index}:\n\t.quad .Lenter{index}\n"
        )
    return "".join(parts) + TAIL


def table(symbols: list[str]) -> str:
    """Return the C table: name, stub, implementation, and what cuGetProcAddress needs."""
    plain = sorted({"".join(split(symbol)[:2]) for symbol in symbols})
    lines = ['#include "sim.h"', ""]
    lines += [f"extern int {symbol}(void);" for symbol in symbols]
    lines += [f"extern __attribute__((weak)) int sim_{name}(void);" for name in plain]
    lines += ["", "const struct sim_name sim_names[] = {"]
    for symbol in symbols:
        base, suffix, per_thread = split(symbol)
        early = symbol in BEFORE_INIT
        lines.append(
            f'\t{{"{symbol}", (void *){symbol}, (void *)sim_{base}{suffix}, '
            f'{str(per_thread).lower()}, {str(early).lower()}, "{base}", {since(symbol)}}},'
        )
    lines += ["};", "", f"const u32 sim_name_count = {len(symbols)};", ""]
    return "\n".join(lines)


def symbols() -> list[str]:
    """Return the exported names, in the order that the oracle numbers them."""
    text = (Path(__file__).parent / "symbols.txt").read_text(encoding="ascii")
    return [line for line in text.split("\n") if line and not line.startswith("#")]
