"""The same source gives the same wheel, byte by byte, wherever and by whomever it is built.

The image's own wheel, compiled by zig, is held against another build in test_image_layout.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.deploy.image_root import ROOT, files_of_the_repository

ELSEWHERE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "HOME": "/nowhere", "COLUMNS": "40"}


def clone(target: Path) -> Path:
    """Copy the repository as it is now, with new time stamps."""
    for name in files_of_the_repository():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    return target


def build(source: Path, out: Path, compiler: str, umask: int = 0o022, **environment: str) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation"]
    command += ["--no-deps", "--no-index", "--wheel-dir", str(out), str(source)]
    variables = dict(os.environ) | {"GPUGAUGE_BPF_COMPILER": compiler} | environment
    done = subprocess.run(
        command, env=variables, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def build_elsewhere(folder: Path, compiler: str) -> Path:
    """Build in a folder with leftovers, by another kind of user, and return the wheel."""
    source = clone(folder / "a place with a remarkable-name")
    objects = source / "src" / "gpugauge" / "ebpf" / "objects"
    objects.mkdir(exist_ok=True)
    (objects / "old.x86_64.o").write_bytes(b"old")
    (source / "src" / "gpugauge" / "__pycache__").mkdir()
    (source / "src" / "gpugauge" / "__pycache__" / "left.pyc").write_bytes(b"old")
    wheel = build(source, folder / "out", compiler, umask=0o077, **ELSEWHERE)
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        assert not [name for name in names if b"remarkable-name" in opened.read(name)]
        assert len([name for name in names if name.endswith(".o")]) == 4
    return wheel


def test_two_builds_are_byte_equal(tmp_path: Path) -> None:
    first = build(clone(tmp_path / "one"), tmp_path / "out-1", "clang")
    second = build_elsewhere(tmp_path, "clang")
    assert first.name == second.name
    assert contents(first) == contents(second)  # says which file differs
    assert first.read_bytes() == second.read_bytes()


def contents(wheel: Path) -> dict[str, tuple[object, ...]]:
    with zipfile.ZipFile(wheel) as opened:
        return {
            each.filename: (each.date_time, each.external_attr, each.CRC, each.file_size)
            for each in opened.infolist()
        }
