"""A small shared library with the entry shapes of real drivers, for the tests of discovery."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

FUNCTIONS = {
    "cuInit": "push %rbp; mov %rsp, %rbp; xor %eax, %eax; pop %rbp; ret",
    "cuLaunchKernel": "cmpl $0x321cba00, guard(%rip); je 1f; xor %eax, %eax; ret; 1: ud2",
    "cuMemAlloc_v2": "endbr64; push %r15; pop %r15; xor %eax, %eax; ret",
    "cuMemFree_v2": "mov %rdi, %rax; xor %eax, %eax; ret",
    "cuStreamSynchronize": "test %rdi, %rdi; jne 1f; 1: xor %eax, %eax; ret",
    "cuLaunchOfTomorrow": "push %rbx; pop %rbx; xor %eax, %eax; ret",
    "cuProfilerStart": "push %rbp; pop %rbp; xor %eax, %eax; ret",
}
ALIASES = {"cuStreamSynchronize_ptsz": "cuStreamSynchronize"}


@functools.cache
def image() -> bytes:
    """The bytes of the library, built once a run."""
    lines = [".text"]
    for name, body in FUNCTIONS.items():
        lines += [f".globl {name}", f".type {name}, @function", ".p2align 4", f"{name}:", body]
        lines += [f".size {name}, . - {name}"]
    for name, target in ALIASES.items():
        lines += [f".globl {name}", f".type {name}, @function", f".set {name}, {target}"]
    lines += [".data", "guard: .long 1", '.section .note.GNU-stack,"",@progbits', ""]
    compiler = shutil.which("clang") or shutil.which("gcc")
    assert compiler, "a C compiler is needed to build the library of this test"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "cuda.s")
        source.write_text("\n".join(lines))
        target = Path(folder, "libcuda.so.1")
        flags = ["-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id=sha1"]
        subprocess.run([compiler, *flags, "-o", target, source], check=True)
        return target.read_bytes()


def write(path: Path) -> Path:
    """Write a copy of the library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(image())
    path.chmod(0o755)
    return path
