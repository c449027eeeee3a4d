"""Objects are compiled by clang and by zig, for both architectures, and both load and count."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tools import build_bpf

from gpugauge.codec.elf import Elf
from gpugauge.ebpf.attachment import Mode, Probe, attach
from gpugauge.ebpf.loader import load
from gpugauge.ebpf.object import BpfObject
from gpugauge.ebpf.proof import counting_programs
from tests.bpf.conftest import HERE, Target

COMPILERS = ("clang", "zig")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_objects_of_both_compilers_load_and_count(
    compiler: str, tmp_path: Path, library: Path, offsets: dict[str, int], target: Target
) -> None:
    source = tmp_path / "empty.o"
    build_bpf.compile_object(build_bpf.SOURCES["empty"], source, "x86_64", compiler)
    with load(source.read_bytes()) as loaded:
        probes = [Probe(offset=offsets["jump_a"], cookie=19, wants_return=True)]
        programs = counting_programs(loaded, Mode.SESSION)
        attachment = attach(Mode.SESSION, str(library), probes, programs)
        target.call("jump_a", 1013)
        attachment.close()
        assert loaded.maps["hits"].lookup(struct.pack("<I", 19)) == struct.pack("<QQ", 1013, 1013)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_subprograms_and_callbacks_of_both_compilers_load(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "features.o"
    build_bpf.compile_object(HERE / "features.bpf.c", source, "x86_64", compiler)
    load(source.read_bytes(), ["work", "send", "ends"], {"setting": 5}).close()


@pytest.mark.parametrize("architecture", list(build_bpf.ARCHITECTURES))
@pytest.mark.parametrize("compiler", COMPILERS)
def test_both_architectures_compile_without_dwarf(
    compiler: str, architecture: str, tmp_path: Path
) -> None:
    target = tmp_path / "empty.o"
    build_bpf.compile_object(build_bpf.SOURCES["empty"], target, architecture, compiler)
    data = target.read_bytes()
    assert len(BpfObject(data).programs) == 7
    sections = [each for each in Elf(data).sections if each.size]
    assert not [each.name for each in sections if each.name.startswith((".debug", ".rel.debug"))]
    assert {".BTF", ".BTF.ext", ".maps", "license"} <= {each.name for each in sections}


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.o", "two.o"):
        build_bpf.compile_object(build_bpf.SOURCES["empty"], tmp_path / name, "x86_64")
    assert (tmp_path / "one.o").read_bytes() == (tmp_path / "two.o").read_bytes()


def test_what_does_not_compile_leaves_no_object(tmp_path: Path) -> None:
    source = tmp_path / "wrong.bpf.c"
    source.write_text("int wrong(")
    with pytest.raises(build_bpf.subprocess.CalledProcessError):
        build_bpf.compile_object(source, tmp_path / "wrong.o", "x86_64")
    assert not (tmp_path / "wrong.o").exists()
