"""Build the simulated libraries with the C compiler of the machine.

Usage: python -m sim.build OUT [--shape push|je]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from sim import stubs

SOURCES = Path(__file__).parent / "c"
NVML = ("nvml.c", "nvml_process.c", "state.c", "device.c")
PROGRAMS = ("hammer.c",)
FLAGS = ("-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden", "-fPIC", "-pthread")


def compiler() -> str:
    """Return the C compiler: $CC, cc, gcc or clang.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise FileNotFoundError("no C compiler found: install gcc or clang, or set CC")


def build(out_dir: Path | str, shape: str = "push") -> Path:
    """Build libcuda.so.1 into a folder, with libnvidia-ml.so.1 and the hammer beside it.

    Args:
        out_dir: made if missing; files in it are replaced, not overwritten, so that a library
            that is mapped stays whole.
        shape: the entry of every function: "push" as driver 580, "je" as 470 to 555.

    Returns:
        The path of libcuda.so.1.
    """
    if shape not in stubs.SHAPES:
        raise ValueError(f"no entry shape {shape!r}: use one of {', '.join(stubs.SHAPES)}")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    names = stubs.symbols()
    with tempfile.TemporaryDirectory(dir=out) as folder:
        work = Path(folder)
        (work / "stubs.S").write_text(stubs.assembly(names, shape), encoding="ascii")
        (work / "table.c").write_text(stubs.table(names), encoding="ascii")
        separate = {*NVML, *PROGRAMS} - {"state.c", "device.c"}
        driver = [path for path in sorted(SOURCES.glob("*.c")) if path.name not in separate]
        library = _link(work, "libcuda.so.1", [work / "stubs.S", work / "table.c", *driver])
        library.replace(out / library.name)
        made = _link(work, "libnvidia-ml.so.1", [SOURCES / name for name in NVML])
        made.replace(out / made.name)
        for name in PROGRAMS:
            program = work / Path(name).stem
            _run([*FLAGS, str(SOURCES / name), "-o", str(program), "-ldl"])
            program.replace(out / program.name)
    return out / "libcuda.so.1"


def cached(shape: str = "push") -> Path:
    """Return libcuda.so.1 of the present sources, built at most once per user and machine.

    For tests: many of them share one library. Each caller that needs an inode of its own copies
    the file or calls build().
    """
    digest = hashlib.sha256(shape.encode())
    for path in sorted([*SOURCES.iterdir(), *SOURCES.parent.glob("*.py")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"gpugauge-sim-{os.getuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: remove it, or set TMPDIR")
    target = folder / f"{shape}-{digest.hexdigest()[:16]}"
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(dir=folder))
        fresh.chmod(0o755)
        build(fresh, shape)
        try:
            fresh.rename(target)
        except OSError:  # another test run was faster
            shutil.rmtree(fresh)
    return target / "libcuda.so.1"


def _link(work: Path, soname: str, sources: list[Path]) -> Path:
    target = work / soname
    shared = ["-shared", f"-Wl,-soname,{soname}", "-Wl,-z,now", "-Wl,--no-undefined"]
    inputs = [str(path) for path in sources]
    _run([*FLAGS, *shared, "-I", str(SOURCES), *inputs, "-o", str(target)])
    return target


def _run(arguments: list[str]) -> None:
    done = subprocess.run([compiler(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the simulated driver does not compile:\n{done.stderr[-4000:]}")


def main() -> None:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=stubs.SHAPES, default="push")
    options = parser.parse_args()
    print(build(options.out, options.shape))


if __name__ == "__main__":
    main()
