"""Settings, data, subprograms, callbacks, maps of every kind, and errors that tell why."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.ebpf import syscalls
from gpugauge.ebpf.links import attach_multi, attach_raw_tracepoint
from gpugauge.ebpf.loader import Loaded, load
from gpugauge.ebpf.ring import Ring
from gpugauge.ebpf.syscalls import BpfCallError, Command
from gpugauge.ebpf.verifier import VerifierError, useful_lines
from gpugauge.errors import ForeignDataError, UnsupportedError
from tests.bpf.conftest import HERE, Target


def ids(command: Command) -> set[int]:
    """Return the ids of all BPF programs or links in Linux."""
    found: set[int] = set()
    attribute = __import__("ctypes").create_string_buffer(12)
    last = 0
    while True:
        struct.pack_into("<III", attribute, 0, last, 0, 0)
        try:
            syscalls.bpf(command, attribute)
        except BpfCallError:
            return found
        (last,) = struct.unpack_from("<I", attribute, 4)
        found.add(last)


@pytest.fixture
def features(features_object: bytes) -> Iterator[Loaded]:
    with load(
        features_object,
        ["work", "send", "ends"],
        {"setting": 1000003, "negative_setting": -3},
        {"numbers": 2003},
    ) as loaded:
        yield loaded


def variable(loaded: Loaded, section: str, offset: int) -> int:
    content = loaded.maps[section].lookup(bytes(4))
    assert content is not None
    return int.from_bytes(content[offset : offset + 8], "little")


def variables(loaded: Loaded, data: bytes) -> dict[str, int]:
    from gpugauge.codec.elf import Elf

    elf = Elf(data)
    return {
        each.name: variable(loaded, elf.sections[each.section].name, each.value)
        for each in elf.symbols()
        if each.type == 1
        and each.size == 8
        and elf.sections[each.section].name in (".data", ".bss", ".rodata")
    }


def test_settings_data_subprograms_and_callbacks_work(
    features: Loaded,
    features_object: bytes,
    library: Path,
    offsets: dict[str, int],
    target: Target,
) -> None:
    link = attach_multi(
        features.programs["work"], str(library), [offsets["push_a"]], [7907], returns=False
    )
    target.call("push_a", 5)
    link.close()
    found = variables(features, features_object)
    assert found["setting"] == 1000003
    assert found["zero_at_first"] == 1000003 + 7 - 3
    assert found["initialized"] == 1000 + 5 * 4 * 1000003
    assert found["from_subprogram"] == 10
    assert found["from_callback"] == 5 * 45
    assert found["cookie_seen"] == 7907


def test_a_mapped_array_is_read_as_memory(
    features: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    view = features.maps["mapped"].memory()
    size = features.layout.size("inner")
    at = size + features.layout.offset("inner", "second[2]")
    assert view[at : at + 8] == bytes(8)
    link = attach_multi(
        features.programs["work"], str(library), [offsets["push_a"]], [1], returns=False
    )
    target.call("push_a", 1)
    link.close()
    assert int.from_bytes(view[at : at + 8], "little") == 1299709
    view.release()


def test_a_setting_cannot_be_changed_after_loading(features: Loaded) -> None:
    rodata = features.maps[".rodata"]
    with pytest.raises(BpfCallError):
        rodata.update(bytes(4), bytes(rodata.value_size))


def test_map_entries_and_memory_are_as_asked(features: Loaded) -> None:
    assert features.maps["numbers"].max_entries == 2003
    memory = features.maps["numbers"].memory_bytes()
    assert memory is not None
    assert memory > 2003 * 20
    assert features.memory_bytes >= memory


def test_a_queue_takes_what_fits(features: Loaded) -> None:
    for number in (2, 3, 5, 7):
        features.maps["queue"].push(struct.pack("<I", number))
    with pytest.raises(BpfCallError):
        features.maps["queue"].push(struct.pack("<I", 11))


def test_ring_records_come_once_in_order_and_within_the_limit(
    features: Loaded, library: Path, offsets: dict[str, int], target: Target
) -> None:
    ring = Ring(features.maps["ring"])
    link = attach_multi(
        features.programs["send"], str(library), [offsets["push_b"]], [1], returns=False
    )
    try:
        assert not ring.wait(0)
        target.call("push_b", 23)
        assert ring.wait(5)
        got = [*ring.read(most=7), *ring.read()]
        assert not ring.wait(0)
        assert [struct.unpack("<QQ", each) for each in got] == [(n, n * n) for n in range(1, 24)]
        target.call("push_b", 1009)  # more than fits: the rest is refused, not overwritten
        full = ring.read()
        assert [struct.unpack("<Q", each[:8])[0] for each in full] == list(
            range(24, 24 + len(full))
        )
        assert len(full) == 4096 // 24
        target.call("push_b", 3)
        assert len(ring.read()) == 3
        assert ring.read() == []
    finally:
        link.close()
        ring.close()


def test_a_raw_tracepoint_sees_a_process_end(features: Loaded, features_object: bytes) -> None:
    link = attach_raw_tracepoint(features.programs["ends"])
    subprocess.run(["/bin/true"], check=True)
    link.close()
    assert variables(features, features_object)["from_subprogram"] >= 1


def test_layouts_come_from_the_object(features: Loaded) -> None:
    layout = features.layout
    assert layout.size("inner") == 32
    assert layout.offset("mixed", "inners[1].second[2]") == 8 + 32 + 8 + 16
    assert layout.offset("flat", "rows[3].two[1]") == 8 + 3 * 24 + 8
    assert layout.length("flat", "rows") == 4
    assert layout.member_size("mixed", "inners[0].second") == 24
    assert layout.struct("flat").size == layout.size("flat") == 104
    assert layout.members("inner") == {"first": 0, "padding": 4, "second": 8}
    for name, path in (("flat", "rows[4]"), ("flat", "none"), ("flat", "rows.two"), ("no", "x")):
        with pytest.raises(ForeignDataError):
            layout.offset(name, path)
    with pytest.raises(ForeignDataError, match="not made of u64"):
        layout.struct("mixed")


def test_a_refused_program_shows_the_last_useful_lines(features_object: bytes) -> None:
    with pytest.raises(VerifierError) as caught:
        load(features_object, ["refused"])
    text = str(caught.value)
    assert "refused" in text
    assert "invalid mem access" in text.splitlines()[-1]
    assert "processed " not in text
    assert "processed " in caught.value.log
    assert "return row->number" in caught.value.log  # the source line: line info arrived


def test_long_logs_say_how_much_is_left_out() -> None:
    log = "\n".join(f"{n}: (b7) r0 = {n}" for n in range(100)) + "\nR1 wrong\nprocessed 9 insns\n"
    shown, omitted = useful_lines(log)
    assert shown[-1] == "R1 wrong"
    assert len(shown) + omitted == 101
    assert f"({omitted} lines before these omitted)" in str(VerifierError("p", "no", log))


def test_a_function_linux_does_not_have_is_named(features_object: bytes) -> None:
    with pytest.raises(UnsupportedError, match="gpugauge_has_no_such_function"):
        load(features_object, ["absent"])


@pytest.mark.parametrize(
    "options",
    [
        {"programs": ["nothing"]},
        {"rodata": {"nothing": 1}},
        {"rodata": {"small_setting": 1 << 40}},
        {"map_entries": {"nothing": 1}},
    ],
)
def test_what_the_object_lacks_is_an_error(features_object: bytes, options: object) -> None:
    with pytest.raises(ForeignDataError):
        load(features_object, **options)  # type: ignore[arg-type]


def test_nothing_is_left_after_close_and_after_an_error(features_object: bytes) -> None:
    before = ids(Command.PROGRAM_GET_NEXT_ID), len(list(Path("/proc/self/fd").iterdir()))
    load(features_object, ["work", "send"]).close()
    with pytest.raises(VerifierError):
        load(features_object, ["work", "refused"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before[1]
    assert not mine(ids(Command.PROGRAM_GET_NEXT_ID) - before[0])


def mine(programs: set[int]) -> set[int]:
    """Of new programs, those of this object: others may be loading at the same time."""
    import ctypes

    found = set()
    for number in programs:
        try:
            fd = syscalls.bpf(Command.PROGRAM_GET_FD_BY_ID, struct.pack("<I", number))
        except BpfCallError:
            continue
        info = ctypes.create_string_buffer(232)
        syscalls.bpf(
            Command.OBJECT_INFO, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info))
        )
        os.close(fd)
        if info.raw[64:80].split(b"\0")[0] in (b"work", b"send", b"ends"):
            found.add(number)
    return found


def test_a_killed_loader_leaves_nothing_attached(
    features_object: bytes,
    library: Path,
    offsets: dict[str, int],
    target: Target,
    tmp_path: Path,
) -> None:
    (tmp_path / "object.o").write_bytes(features_object)
    code = (
        "import sys, time; sys.path[:0] = sys.argv[1:2]\n"
        "from gpugauge.ebpf import loader, links\n"
        "loaded = loader.load(open(sys.argv[2], 'rb').read(), ['send'])\n"
        "link = links.attach_multi(loaded.programs['send'], sys.argv[3], [int(sys.argv[4])],"
        " [1], returns=False)\n"
        "print('attached', flush=True); time.sleep(60)\n"
    )
    before = ids(Command.PROGRAM_GET_NEXT_ID)
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            str(HERE.parent.parent / "src"),
            str(tmp_path / "object.o"),
            str(library),
            str(offsets["push_b"]),
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"attached\n"
    assert mine(ids(Command.PROGRAM_GET_NEXT_ID) - before)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    for _ in range(100):
        if not mine(ids(Command.PROGRAM_GET_NEXT_ID) - before):
            break
        time.sleep(0.05)
    else:
        pytest.fail("a program is still loaded 5 s after its loader was killed")
    target.call("push_b", 7)
