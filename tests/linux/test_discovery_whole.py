"""Discovery as a whole: real processes, mounts and breakpoints, by Watch and Catalogue."""

import contextlib
import ctypes
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpugauge.discovery.catalogue import Catalogue
from gpugauge.discovery.decision import HostLibrary
from gpugauge.discovery.host import find_host_drivers, mapped_file_id
from gpugauge.discovery.inspect import Inspector
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import ProcScanner
from gpugauge.discovery.watch import Watch
from gpugauge.errors import GpugaugeError
from gpugauge.model.library import FileId
from gpugauge.model.sideband import SidebandBatch
from gpugauge.vendors import CUDA
from tests import discovery_library

# Other processes of this machine may use a libcuda: the tests look for a name of their own.
NAME = f"libdiscovery{os.getpid()}.so.1"
VENDOR = dataclasses.replace(CUDA, library_patterns=(NAME.replace(".", r"\."),))
PROBED = "cuLaunchKernel"
# Calls a function as often as each line of its input says, and answers when done.
CALLER = f"""
import ctypes, os, sys
os.sched_setaffinity(0, {{0}})
call = ctypes.CDLL(sys.argv[1]).{PROBED}
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        call()
    print("done", flush=True)
"""


class Probe:
    """A perf uprobe that counts its hits on CPU 0."""

    def __init__(self, path: str, file_offset: int) -> None:
        kind = int(Path("/sys/bus/event_source/devices/uprobe/type").read_text())
        name = ctypes.create_string_buffer(os.fsencode(path))
        attributes = (ctypes.c_uint64 * 16)()
        attributes[0] = kind | 128 << 32
        attributes[7] = ctypes.addressof(name)  # config1: the path
        attributes[8] = file_offset  # config2
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        self.descriptor = syscall(298, ctypes.byref(attributes), -1, 0, -1, 8)  # perf_event_open
        assert self.descriptor >= 0, os.strerror(ctypes.get_errno())

    def hits(self) -> int:
        return int.from_bytes(os.read(self.descriptor, 8), "little")

    def close(self) -> None:
        os.close(self.descriptor)


class Gauge:
    """The agent's part: carries out what the catalogue decides."""

    def __init__(self) -> None:
        names = LibraryNames(VENDOR.library_patterns)
        self.catalogue = Catalogue()
        self.watch = Watch(self.catalogue, ProcScanner(names), names, self.cgroup_of)
        self.inspector = Inspector(VENDOR)
        self.probes: dict[FileId, tuple[str, Probe, Probe]] = {}
        self.hits = 0
        self.unprobed: dict[int, str] = {}

    @staticmethod
    def cgroup_of(pid: int) -> int:
        return pid  # each process is a container of its own here

    def settle(self) -> None:
        """Look at every process, then act until there is nothing to do."""
        self.watch.handle(SidebandBatch((), lost=1), time.monotonic_ns())
        while True:
            decision = self.catalogue.decide(time.monotonic_ns())
            self.unprobed = dict(decision.unprobed)
            if not (decision.inspect or decision.attach or decision.release):
                return
            for file_id in decision.release:
                self.release(file_id)
                self.catalogue.released(file_id)
            for each in decision.inspect:
                try:
                    found = self.inspector.inspect(
                        each.path, shown_path=each.shown_path, pid=each.pid
                    )
                except GpugaugeError as error:
                    self.catalogue.refused(each.file_id, error.sentence, time.monotonic_ns())
                    continue
                self.catalogue.inspected(
                    each.file_id, found.library, probed=found.probed, now_ns=time.monotonic_ns()
                )
            for library in decision.attach:
                offset = next(s.file_offset for s in library.sites if s.symbol == PROBED)
                assert library.canary is not None
                canary = Probe(library.path, library.canary.file_offset)
                self.probes[library.file_id] = library.path, Probe(library.path, offset), canary
                self.catalogue.attached(library.file_id)

    def release(self, file_id: FileId) -> None:
        _, probe, canary = self.probes.pop(file_id)
        self.hits += probe.hits()
        probe.close()
        canary.close()

    def total(self) -> int:
        return self.hits + sum(probe.hits() for _, probe, _ in self.probes.values())

    def close(self) -> None:
        for file_id in list(self.probes):
            self.release(file_id)


class Caller:
    """A process that uses the library."""

    def __init__(self, path: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-S", "-c", CALLER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.expect(b"ready\n")

    def expect(self, line: bytes) -> None:
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == line

    def call(self, times: int) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(b"%d\n" % times)
        self.child.stdin.flush()
        self.expect(b"done\n")

    def end(self) -> None:
        self.child.kill()
        self.child.communicate()


@pytest.fixture
def mounts() -> Iterator[contextlib.ExitStack]:
    """Mounts, ended after everything that holds them."""
    with contextlib.ExitStack() as mounts:
        yield mounts


@pytest.fixture
def stack(mounts: contextlib.ExitStack) -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def gauge(stack: contextlib.ExitStack) -> Gauge:
    gauge = Gauge()
    stack.callback(gauge.close)
    return gauge


def caller(stack: contextlib.ExitStack, path: Path) -> Caller:
    process = Caller(path)
    stack.callback(process.end)
    return process


def overlay(mounts: contextlib.ExitStack, folder: Path, lower: Path) -> Path:
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    target = folder / "root"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, target], check=True)
    mounts.callback(umount, target)
    return target


def umount(target: Path) -> None:
    """Unmount; twice does no harm, a busy one is a failure."""
    if target.is_mount():
        subprocess.run(["umount", target], check=True)


def test_two_overlays_over_one_file_count_once(
    tmp_path: Path, mounts: contextlib.ExitStack, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    discovery_library.write(tmp_path / "lower" / NAME)
    first, second = (overlay(mounts, tmp_path / name, tmp_path / "lower") for name in "ab")
    one, two = caller(stack, first / NAME), caller(stack, second / NAME)
    gauge.settle()
    assert len(gauge.probes) == 1
    assert gauge.unprobed == {}
    one.call(101)
    two.call(23)
    assert gauge.total() == 124


def test_a_mount_can_go_as_soon_as_its_container_has_ended(
    tmp_path: Path, mounts: contextlib.ExitStack, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    discovery_library.write(tmp_path / "lower" / NAME)
    first, second = (overlay(mounts, tmp_path / name, tmp_path / "lower") for name in "ab")
    one, two = caller(stack, first / NAME), caller(stack, second / NAME)
    gauge.settle()
    one.call(7)
    one.end()
    gauge.settle()
    umount(first)
    two.call(11)
    assert gauge.total() == 18
    two.end()
    gauge.settle()
    assert gauge.probes == {}
    umount(second)


def test_own_copies_count_apart_and_deleted_files_too(
    tmp_path: Path, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    paths = [discovery_library.write(tmp_path / name / NAME) for name in "abc"]
    callers = [caller(stack, path) for path in paths]
    paths[1].unlink()
    gauge.settle()
    assert len(gauge.probes) == 3
    for each, times in zip(callers, (3, 5, 7), strict=True):
        each.call(times)
    assert sorted(probe.hits() for _, probe, _ in gauge.probes.values()) == [3, 5, 7]
    assert gauge.unprobed == {}


def test_a_bind_mount_of_the_hosts_file_needs_no_link_of_its_own(
    tmp_path: Path, mounts: contextlib.ExitStack, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    host = tmp_path / "host"
    real = discovery_library.write(host / "usr" / "lib64" / NAME)
    (driver,) = find_host_drivers(VENDOR, host_root=str(host))
    library = gauge.inspector.inspect(driver.path).library
    gauge.catalogue.set_hosts([HostLibrary(library.file_id, driver.path)])
    pod = tmp_path / "pod"
    pod.mkdir()
    subprocess.run(["mount", "--bind", real.parent, pod], check=True)
    mounts.callback(subprocess.run, ["umount", "--lazy", "--quiet", pod], check=False)
    gauge.settle()
    process = caller(stack, pod / NAME)
    process.call(13)  # the first call of a new process of a known file
    assert gauge.total() == 13
    gauge.settle()
    assert [path for path, _, _ in gauge.probes.values()] == [str(real)]
    process.end()
    subprocess.run(["umount", pod], check=True)  # nothing of ours holds it


def test_the_hosts_file_is_named_as_in_the_maps_of_its_users(
    tmp_path: Path, mounts: contextlib.ExitStack, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    discovery_library.write(tmp_path / "lower" / NAME)
    root = overlay(mounts, tmp_path / "a", tmp_path / "lower")
    caller(stack, root / NAME)
    gauge.settle()
    assert list(gauge.probes) == [mapped_file_id(str(root / NAME))]
    replaced = discovery_library.write(tmp_path / "plain" / NAME)
    before = mapped_file_id(str(replaced))
    discovery_library.write(tmp_path / "plain" / "new").rename(replaced)
    assert mapped_file_id(str(replaced)) not in (None, before)
    replaced.unlink()
    assert mapped_file_id(str(replaced)) is None
    os.mkfifo(tmp_path / "fifo")
    assert mapped_file_id(str(tmp_path / "fifo")) is None


def test_a_driver_that_is_replaced_while_it_is_used(
    tmp_path: Path, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    folder = tmp_path / "usr" / "lib64"
    folder.mkdir(parents=True)
    gauge.settle()  # no driver yet

    def host() -> None:
        drivers = find_host_drivers(VENDOR, host_root=str(tmp_path))
        found = [gauge.inspector.inspect(each.path).library for each in drivers]
        gauge.catalogue.set_hosts([HostLibrary(each.file_id, each.path) for each in found])

    discovery_library.write(folder / NAME)
    host()
    gauge.settle()
    before = caller(stack, folder / NAME)
    before.call(17)
    discovery_library.write(folder / "new")
    (folder / "new").rename(folder / NAME)  # as packages do
    host()
    gauge.settle()
    after = caller(stack, folder / NAME)
    after.call(19)
    before.call(2)
    gauge.settle()
    assert gauge.total() == 38
    assert len(gauge.probes) == 2
    before.end()
    gauge.settle()
    assert len(gauge.probes) == 1
    after.call(5)
    assert gauge.total() == 43


def test_a_foreign_file_of_that_name_is_reported_and_hurts_nobody(
    tmp_path: Path, stack: contextlib.ExitStack, gauge: Gauge
) -> None:
    good = caller(stack, discovery_library.write(tmp_path / "good" / NAME))
    bad = tmp_path / "bad" / NAME
    bad.parent.mkdir()
    bad.write_bytes(b"\x7fELF" + bytes(8192))
    script = (
        "import mmap, os, sys; handle = os.open(sys.argv[1], os.O_RDONLY); "
        "view = mmap.mmap(handle, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC); "
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, bad], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tenant:
        assert tenant.stdout is not None
        assert tenant.stdout.readline() == b"ready\n"
        gauge.settle()
        assert gauge.unprobed == {tenant.pid: "Not a 64-bit little-endian ELF file."}
        tenant.kill()
    good.call(29)
    assert gauge.total() == 29
