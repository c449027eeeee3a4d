"""From records of Linux to the catalogue, on a made-up /proc."""

from pathlib import Path

import pytest

from gpugauge.discovery.catalogue import Catalogue
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import ProcScanner
from gpugauge.discovery.watch import FULL_SCAN_NS, Watch
from gpugauge.model.library import FileId
from gpugauge.model.sideband import (
    CommandSet,
    FileMapped,
    SidebandBatch,
    SidebandRecord,
    TaskEnded,
    TaskStarted,
)
from gpugauge.vendors import CUDA
from tests.unit.test_discovery_scan import HOST, LIBC, Proc

FILE = FileId(8, 1, 71)


class Bench:
    def __init__(self, root: Path) -> None:
        self.proc = Proc(root)
        self.catalogue = Catalogue()
        names = LibraryNames(CUDA.library_patterns)
        self.cgroups = {3: 103, 5: 105, 7: 107}
        self.asked: list[int] = []
        scanner = ProcScanner(names, str(root))
        self.watch = Watch(self.catalogue, scanner, names, self.cgroup_of)
        self.now_ns = 1

    def cgroup_of(self, pid: int) -> int:
        self.asked.append(pid)
        return self.cgroups.get(pid, 0)

    def handle(self, *records: SidebandRecord, lost: int = 0) -> bool:
        batch = SidebandBatch(records, lost)
        concerns = self.watch.concerns(batch)
        assert self.watch.handle(batch, self.now_ns) is concerns
        return concerns

    def inspected(self) -> list[FileId]:
        return [each.file_id for each in self.catalogue.decide(self.now_ns).inspect]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.proc.process(5, LIBC)
    bench.watch.refresh(bench.now_ns)
    return bench


def mapped(pid: int, path: str = "/x/libcuda.so.1", protection: int = 5) -> FileMapped:
    return FileMapped(
        time_ns=1, pid=pid, tid=pid, file_id=FILE, inode_generation=0, path=path,
        address=0x1000, length_bytes=0x1000, file_offset=0, protection=protection,
    )  # fmt: skip


def test_a_mapped_library_is_known_at_once(bench: Bench) -> None:
    bench.proc.process(5, HOST)
    assert bench.handle(mapped(5))
    assert bench.inspected() == [FILE]


@pytest.mark.parametrize(
    "record",
    [
        mapped(5, path="/usr/lib/libc.so.6"),
        mapped(5, protection=1),
        TaskEnded(1, 5, 5, 1),
        TaskStarted(1, 11, 11, 5),
        CommandSet(1, 5, 5, "x", executed=True),
        CommandSet(1, 5, 5, "x", executed=False),
    ],
)
def test_other_records_cost_nothing(bench: Bench, record: SidebandRecord) -> None:
    bench.proc.process(5, HOST)
    assert not bench.handle(record)
    assert bench.inspected() == []


def test_a_forked_child_is_a_user_too(bench: Bench) -> None:
    bench.proc.process(5, HOST)
    bench.handle(mapped(5))
    bench.proc.process(7, HOST)
    assert bench.handle(TaskStarted(2, 7, 7, 5))
    assert set(bench.catalogue.decide(1).unprobed) == {5, 7}
    assert not bench.handle(TaskStarted(3, 7, 77, 5))  # a thread


@pytest.mark.parametrize(
    "record", [TaskEnded(2, 5, 5, 1), CommandSet(2, 5, 5, "sh", executed=True)]
)
def test_an_end_or_another_program_ends_the_use(bench: Bench, record: SidebandRecord) -> None:
    bench.proc.process(5, HOST)
    bench.handle(mapped(5))
    bench.proc.process(5, LIBC)
    assert bench.handle(record)
    assert bench.catalogue.decide(1).unprobed == {}


def test_lost_records_make_a_full_scan(bench: Bench) -> None:
    bench.proc.process(5, HOST)
    bench.watch.refresh(bench.now_ns)  # an update reads new processes only
    assert bench.inspected() == []
    assert bench.handle(lost=1)
    assert bench.inspected() == [FILE]


def test_all_is_read_again_once_a_minute(bench: Bench) -> None:
    bench.proc.process(5, HOST)
    bench.watch.refresh(bench.now_ns + FULL_SCAN_NS - 1)
    assert bench.inspected() == []
    bench.watch.refresh(bench.now_ns + FULL_SCAN_NS)
    assert bench.inspected() == [FILE]


def test_the_cgroup_of_a_process_is_asked_once(bench: Bench) -> None:
    bench.proc.process(5, HOST)
    for _ in range(3):
        bench.handle(mapped(5))
    assert bench.asked == [5]
    bench.proc.process(5, HOST, start=997)  # the pid again, another process
    bench.handle(mapped(5))
    assert bench.asked == [5, 5]


def test_processes_without_a_library_are_reported_with_the_reason(bench: Bench) -> None:
    bench.proc.process(3, LIBC, nodes=("/dev/nvidia-uvm",))
    bench.proc.process(5, HOST)
    bench.proc.process(7, LIBC, nodes=("/dev/nvidiactl",))
    bench.watch.list_devices({5: "NVML lists it", 11: "NVML lists it"})
    bench.handle(lost=1)
    unprobed = bench.catalogue.decide(1).unprobed
    assert set(unprobed) == {3, 5, 11}
    assert "holds a compute device" in unprobed[3]
    assert "not attached yet" in unprobed[5]
    assert unprobed[11] == "NVML lists it"
