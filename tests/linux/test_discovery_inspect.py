"""Inspection of foreign files by the child, for real. Needs root."""

import ctypes
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpugauge.discovery import inspect as inspections
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import ProcScanner
from gpugauge.errors import ForeignDataError, UnavailableError
from gpugauge.model.library import FileId, SiteKind
from gpugauge.vendors import CUDA
from tests import discovery_library

INSPECTOR = Inspector(CUDA)
HOLD = """
import mmap, os, sys
handle = os.open(sys.argv[1], os.O_RDONLY)
view = mmap.mmap(handle, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def user_of(path: Path) -> Iterator[int]:
    """A process that maps the file, by its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            child.kill()


@contextmanager
def mounted(target: Path, *arguments: str) -> Iterator[Path]:
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *arguments, str(target)], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", str(target)], check=True)


@contextmanager
def probe(path: Path, file_offset: int) -> Iterator[None]:
    """A uprobe of perf(1)'s kind: it counts, and runs no program."""
    kind = int(Path("/sys/bus/event_source/devices/uprobe/type").read_text())
    name = ctypes.create_string_buffer(os.fsencode(path))
    attributes = (ctypes.c_uint64 * 16)()
    attributes[0] = kind | 128 << 32
    attributes[7] = ctypes.addressof(name)  # config1: the path
    attributes[8] = file_offset  # config2
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    descriptor = syscall(298, ctypes.byref(attributes), -1, 0, -1, 8)  # perf_event_open
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        os.close(descriptor)


def maps_entry(pid: int) -> tuple[FileId, str]:
    found = ProcScanner(LibraryNames(CUDA.library_patterns)).scan().processes[pid]
    (mapping,) = found.mappings
    return mapping.file_id, f"/proc/{pid}/map_files/{mapping.map_files_name}"


def refusal(path: Path | str, inspector: Inspector = INSPECTOR) -> str:
    with pytest.raises(ForeignDataError) as caught:
        inspector.inspect(str(path))
    return caught.value.sentence


def test_a_library_is_read_by_nobody(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.580.159.04")
    inspection = INSPECTOR.inspect(str(path))
    library = inspection.library
    assert inspection.unprivileged
    assert not inspection.probed
    assert (library.vendor, library.version) == ("cuda", "580.159.04")
    assert library.exported == 8
    assert library.unknown_symbols == ("cuLaunchOfTomorrow",)
    assert {site.symbol for site in library.sites if site.kind is SiteKind.NONE} == {"cuMemFree_v2"}
    assert library.size_bytes == path.stat().st_size
    assert library.canary is not None


def test_the_file_is_named_as_in_the_maps_of_its_users(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    with user_of(path) as pid:
        file_id, map_files = maps_entry(pid)
        by_path = INSPECTOR.inspect(str(path)).library
        by_user = INSPECTOR.inspect(map_files, shown_path=str(path), pid=pid).library
    assert by_path.file_id == by_user.file_id == file_id
    assert by_path.build_id == by_user.build_id


def test_a_deleted_library_is_read_through_its_user(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    with user_of(path) as pid:
        path.unlink()
        file_id, map_files = maps_entry(pid)
        library = INSPECTOR.inspect(map_files, shown_path=str(path), pid=pid).library
    assert library.file_id == file_id
    assert len(library.sites) > 3


def test_own_copies_are_two_files(tmp_path: Path) -> None:
    first = discovery_library.write(tmp_path / "a" / "libcuda.so.1")
    second = discovery_library.write(tmp_path / "b" / "libcuda.so.1")
    one, two = (INSPECTOR.inspect(str(path)).library for path in (first, second))
    assert one.file_id != two.file_id
    assert one.build_id == two.build_id


def test_a_bind_mount_is_the_same_file(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "host" / "libcuda.so.1")
    with mounted(tmp_path / "pod", "--bind", str(tmp_path / "host")) as pod:
        seen = INSPECTOR.inspect(str(pod / "libcuda.so.1")).library
    assert seen.file_id == INSPECTOR.inspect(str(path)).library.file_id


def test_a_mount_of_another_namespace_is_found_through_its_user(tmp_path: Path) -> None:
    image = discovery_library.write(tmp_path / "libcuda.so.1")
    pod = tmp_path / "pod"
    pod.mkdir()
    script = f"mount -t tmpfs none {pod} && cp {image} {pod} && exec {sys.executable} -c '{HOLD}'"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f"{script} {pod}/libcuda.so.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            file_id, map_files = maps_entry(child.pid)
            assert not (pod / "libcuda.so.1").exists()
            assert INSPECTOR.inspect(map_files, pid=child.pid).library.file_id == file_id
            assert "mount is not visible" in refusal(map_files)
        finally:
            child.kill()


def test_two_overlays_over_one_file_are_known_by_the_canary(tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    discovery_library.write(lower / "libcuda.so.1")
    for name in ("a", "b"):
        (tmp_path / name / "upper").mkdir(parents=True)
        (tmp_path / name / "work").mkdir()
    options = [
        f"lowerdir={lower},upperdir={tmp_path / name / 'upper'},workdir={tmp_path / name / 'work'}"
        for name in ("a", "b")
    ]
    with (
        mounted(tmp_path / "a" / "root", "-t", "overlay", "overlay", "-o", options[0]) as first,
        mounted(tmp_path / "b" / "root", "-t", "overlay", "overlay", "-o", options[1]) as second,
    ):
        one = INSPECTOR.inspect(str(first / "libcuda.so.1"))
        assert one.library.canary is not None
        assert not one.probed
        with probe(first / "libcuda.so.1", one.library.canary.file_offset):
            two = INSPECTOR.inspect(str(second / "libcuda.so.1"))
            own_copy = discovery_library.write(tmp_path / "copy" / "libcuda.so.1")
            assert not INSPECTOR.inspect(str(own_copy)).probed
        assert two.probed
        assert two.library.file_id != one.library.file_id
        assert two.library.canary == one.library.canary
        assert two.library.sites == one.library.sites
        assert not INSPECTOR.inspect(str(second / "libcuda.so.1")).probed


def test_files_that_are_no_regular_files(tmp_path: Path) -> None:
    fifo = tmp_path / "libcuda.so.1"
    os.mkfifo(fifo)
    assert refusal(fifo) == "it is not a regular file"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert refusal(folder) == "it is not a regular file"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert refusal(tmp_path / "socket") == "it is not a regular file"
    assert "devtmpfs" in refusal("/dev/null")


def test_file_systems_that_may_not_answer_are_refused(tmp_path: Path) -> None:
    assert "it lies on a proc file system" in refusal("/proc/self/maps")
    with mounted(tmp_path / "ram", "-t", "ramfs", "none") as ram:
        path = discovery_library.write(ram / "libcuda.so.1")
        assert "it lies on a ramfs file system" in refusal(path)


def test_a_file_system_that_never_answers_cannot_hang_the_agent(tmp_path: Path) -> None:
    """FUSE without a server: every look at a file in it waits."""
    target = tmp_path / "fuse"
    target.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    mounted_ = libc.mount(b"none", os.fsencode(target), b"fuse", 0, options)
    assert mounted_ == 0, os.strerror(ctypes.get_errno())
    try:
        inspector = Inspector(CUDA, deadline_ns=500_000_000)
        assert "did not answer within the deadline" in refusal(target / "libcuda.so.1", inspector)
    finally:
        os.close(server)  # ends the connection: whoever waits gets an error
        subprocess.run(["umount", "--lazy", target], check=True)
    assert inspector.stuck_children == 0


def test_damaged_files(tmp_path: Path) -> None:
    image = discovery_library.image()
    path = tmp_path / "libcuda.so.1"
    for damaged, sentence in (
        (b"", "the file is empty"),
        (b"\x7fELF", "lie outside the file"),
        (image[: len(image) // 2], "lie outside the file"),
        (b"#!/bin/sh\n" * 99, "Not an ELF file"),
    ):
        path.write_bytes(damaged)
        assert sentence in refusal(path)
    path.unlink()
    assert "No such file" in refusal(path)


def test_a_huge_file_costs_no_memory(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    os.truncate(path, 1 << 40)
    assert "memory" in refusal(path).lower()


def test_a_file_cut_while_it_is_read_hurts_only_the_child(tmp_path: Path) -> None:
    """It may be read whole, in part, or kill the child: the agent goes on."""
    path = tmp_path / "libcuda.so.1"
    image = discovery_library.image()
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            path.write_bytes(image)
            os.truncate(path, 64)

    path.write_bytes(image)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(7):
            try:
                INSPECTOR.inspect(str(path))
            except ForeignDataError as error:
                assert error.sentence
    finally:
        stop.set()
        thread.join()


def test_a_child_that_hangs_is_ended_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a FIFO for writing waits for a reader: a file that never answers."""
    fifo = tmp_path / "libcuda.so.1"
    os.mkfifo(fifo)
    monkeypatch.setattr(inspections, "_PROGRAM", f"import os; os.open({str(fifo)!r}, os.O_WRONLY)")
    inspector = Inspector(CUDA, deadline_ns=300_000_000)
    assert "did not answer within the deadline" in refusal(fifo, inspector)
    assert inspector.stuck_children == 0


def test_too_many_stuck_children_stop_the_inspections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    inspector = Inspector(CUDA)
    monkeypatch.setattr(Inspector, "stuck_children", inspections.STUCK_LIMIT)
    with pytest.raises(UnavailableError, match="do not answer"):
        inspector.inspect(str(path))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import os; os.kill(os.getpid(), 7)", "died of it"),
        ("print('x' * (2 << 20))", "too long"),
        ("print('[]')", "malformed"),
        ("print('{')", "malformed"),
        ("print('[' * 100000)", "malformed"),
        ("print('{}')", "malformed"),
    ],
)
def test_an_answer_of_another_form_is_refused(
    program: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has read hostile bytes, so its answer is hostile too."""
    monkeypatch.setattr(inspections, "_PROGRAM", program)
    assert sentence in refusal("/none")


def test_the_child_keeps_no_privilege(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    # Looks at itself in the place where the child parses the file.
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from gpugauge.discovery import child; "
        "look = lambda *rest: (_ for _ in ()).throw("
        "child.Refused(open('/proc/self/status').read())); "
        "child.sites.find_sites = look; "
        "child.main()"
    )
    monkeypatch.setattr(inspections, "_PROGRAM", program)
    monkeypatch.setattr(inspections, "clean", str)
    lines = dict(line.split(":", 1) for line in refusal(path).splitlines() if ":" in line)
    assert lines["Uid"].split() == ["65534"] * 4
    assert lines["Gid"].split() == ["65534"] * 4
    assert lines["Groups"].split() == []
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(lines[name], 16) == 0


def test_a_hundred_megabytes_are_inspected_within_the_deadline(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    os.truncate(path, 101 << 20)  # the size of a real driver library
    began = time.monotonic_ns()
    assert INSPECTOR.inspect(str(path)).library.size_bytes == 101 << 20
    assert time.monotonic_ns() - began < inspections.DEADLINE_NS
