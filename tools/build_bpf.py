"""Compiles the BPF programs, one object per architecture: `python tools/build_bpf.py`.

clang is used where it is found, else the clang inside the `ziglang` package,
so that `pip install` needs no compiler of the system. The build hook of the
wheel calls the same function.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {"gpu": ROOT / "bpf" / "gpu.bpf.c", "empty": ROOT / "bpf" / "empty.bpf.c"}
OBJECTS = ROOT / "src" / "gpugauge" / "ebpf" / "objects"
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}
FLAGS = (
    "-O2",
    "-g",  # BTF is made of it
    "-mcpu=v3",  # 32-bit registers and atomic compare-and-swap: Linux 5.12
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-fno-asynchronous-unwind-tables",  # zig would add .eh_frame
    "-fno-stack-protector",
    "-fno-ident",
)

CHOICE = "GPUGAUGE_BPF_COMPILER"
"""The variable that chooses a compiler: what an image or a release is built with does not
depend on what else the machine has."""

SECTION = struct.Struct("<IIQQQQIIQQ")


def compiler(prefer: str = "") -> list[str]:
    """Return the command of a clang that compiles for BPF.

    Args:
        prefer: `clang` or `zig`; empty is what the variable GPUGAUGE_BPF_COMPILER says, else
            whichever is found first.

    Raises:
        SystemExit: There is none.
    """
    prefer = prefer or os.environ.get(CHOICE, "")
    clang = shutil.which("clang")
    if clang and prefer != "zig":
        return [clang, "-target", "bpfel"]
    if importlib.util.find_spec("ziglang") and prefer != "clang":
        return [sys.executable, "-m", "ziglang", "cc", "-target", "bpfel-freestanding"]
    raise SystemExit("No compiler for BPF. Install clang, or `pip install ziglang`.")


def compile_object(source: Path, target: Path, architecture: str, prefer: str = "") -> None:
    """Compile one source file for one architecture's registers.

    Raises:
        subprocess.CalledProcessError: The compiler refuses it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial.o")
    command = [
        *compiler(prefer),
        *FLAGS,
        f"-D__TARGET_ARCH_{ARCHITECTURES[architecture]}",
        f"-ffile-prefix-map={ROOT}=.",  # the same bytes wherever it is built
        "-I",
        str(ROOT / "bpf"),
        "-c",
        str(source),
        "-o",
        str(partial),
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    partial.write_bytes(strip(partial.read_bytes()))
    partial.replace(target)  # a reader never sees half an object


def strip(data: bytes) -> bytes:
    """Return an object without the bytes of DWARF; BTF, symbols and numbers of sections stay.

    Done here because llvm-strip is not everywhere and zig's own takes no BPF objects.
    """
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [list(SECTION.unpack_from(data, table + SECTION.size * n)) for n in range(count)]
    out = bytearray(data[:64])
    strings = rows[names][4]
    for row in rows:
        begin = strings + row[0]
        name = data[begin : data.index(b"\0", begin)]
        if name.startswith((b".debug", b".rel.debug", b".rel.BTF", b".llvm")):
            row[1:] = [0] * 9
        no_bits = row[1] == 8
        out += bytes(-len(out) % max(1, row[8]))
        content = b"" if no_bits else data[row[4] : row[4] + row[5]]
        row[4] = len(out)
        out += content
    out += bytes(-len(out) % 8)
    struct.pack_into("<Q", out, 40, len(out))
    return bytes(out) + b"".join(SECTION.pack(*row) for row in rows)


def build(prefer: str = "") -> list[Path]:
    """Compile every program for every architecture and return the objects."""
    built = []
    for name, source in SOURCES.items():
        if not source.exists():
            raise SystemExit(f"{source.relative_to(ROOT)} is missing.")
        for architecture in ARCHITECTURES:
            target = OBJECTS / f"{name}.{architecture}.o"
            compile_object(source, target, architecture, prefer)
            built.append(target)
    return built


if __name__ == "__main__":
    for each in build(sys.argv[1] if len(sys.argv) > 1 else ""):
        print(each.relative_to(ROOT), each.stat().st_size, "bytes")
