"""Real objects, damaged: taken apart or told, never anything else. Nothing is loaded."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from gpugauge.codec import btf
from gpugauge.codec.btf import Btf, Kind
from gpugauge.ebpf import kfunc
from gpugauge.ebpf.link_editor import LinkEditor
from gpugauge.ebpf.object import BpfObject, loadable_btf
from gpugauge.errors import ForeignDataError, UnsupportedError

ROUNDS = 150


def take_apart(data: bytes) -> int:
    """Do all that loading does before Linux is asked; return how many programs came out."""
    found = BpfObject(data)
    maps = found.maps({}, {})
    loadable_btf(found)
    editor = LinkEditor(found, dict.fromkeys(maps, 3), {"bpf_session_is_return": 7})
    for program in found.programs.values():
        editor.kfuncs(program)
        try:
            editor.link(program)
        except UnsupportedError:  # calls a function this Linux does not have
            continue
    return len(found.programs)


def test_whole_objects_are_taken_apart(features_object: bytes, empty_object: bytes) -> None:
    assert take_apart(features_object) == 5
    assert take_apart(empty_object) == 7


def hit(data: bytes, choice: random.Random) -> bytes:
    """Damage an object: some bytes, a word, or an end."""
    out = bytearray(data)
    for _ in range(choice.randint(1, 6)):
        at = choice.randrange(len(out) - 8)
        kind = choice.randrange(4)
        if kind == 0:
            out[at] = choice.randrange(256)
        elif kind == 1:
            struct.pack_into("<I", out, at & ~3, choice.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF)))
        elif kind == 2:
            struct.pack_into("<Q", out, at & ~7, choice.getrandbits(64))
        else:
            out[at : at + 8] = out[at - 8 : at]
    return bytes(out[: choice.randrange(len(out))]) if choice.random() < 0.1 else bytes(out)


@pytest.mark.parametrize("seed", [2, 3, 5, 7])
def test_damaged_objects_are_taken_apart_or_told(features_object: bytes, seed: int) -> None:
    choice = random.Random(seed)
    told = 0
    for _ in range(ROUNDS):
        try:
            take_apart(hit(features_object, choice))
        except ForeignDataError:
            told += 1
    assert told > ROUNDS // 20  # the damage is real


@pytest.mark.parametrize("seed", [11, 13])
def test_damaged_headers_and_types_are_told(features_object: bytes, seed: int) -> None:
    """The same, where it hurts: the ELF header, section headers, BTF."""
    choice = random.Random(seed)
    found = BpfObject(features_object)
    (table,) = struct.unpack_from("<Q", features_object, 40)
    spans = [(0, 64), (table, len(features_object) - table)]
    for name in (".BTF", ".BTF.ext", ".maps", ".symtab"):
        section = found.elf.section(name)
        if section is not None:
            spans.append((section.offset, section.size))
    for _ in range(ROUNDS):
        out = bytearray(features_object)
        start, size = choice.choice(spans)
        for _ in range(choice.randint(1, 4)):
            out[start + choice.randrange(size)] = choice.randrange(256)
        try:
            take_apart(bytes(out))
        except ForeignDataError:
            continue


def test_the_fast_search_for_functions_of_linux_agrees_with_a_full_walk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("bpf_session_is_return", "bpf_session_cookie", "bpf_task_from_pid", "do_exit")
    data = Path(kfunc.LINUX_BTF).read_bytes()
    monkeypatch.setattr(btf, "MAX_TYPES", 1 << 22)
    walked = {
        each.name: each.id
        for each in Btf(data).types
        if each.kind == Kind.FUNCTION and each.name in names
    }
    assert walked
    assert kfunc.ids(names) == walked
    assert kfunc.ids(("gpugauge_has_no_such_function",)) == {}
