"""The scan of /proc, on a made-up tree."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.discovery import maps
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import ProcScanner, open_device_nodes, parse_stat
from gpugauge.model.library import FileId
from gpugauge.vendors import CUDA

HOST = b"1000-2000 r-xp 0 08:01 71 /usr/lib/libcuda.so.580.159.04\n"
COPY = b"5000-6000 r-xp 0 00:2f 73 /opt/libcuda.so.1\n"
LIBC = b"1000-2000 r-xp 0 08:01 11 /usr/lib/libc.so.6\n"


class Proc:
    """A /proc that a test writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reads: list[int] = []

    def process(
        self, pid: int, maps: bytes, start: int = 101, nodes: tuple[str, ...] = (), stack: int = 7
    ) -> None:
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "maps").write_bytes(maps)
        stat = (
            f"{pid} (a) b (c)) S "
            + " ".join(["0"] * 18)
            + f" {start} 4096 0 0 4096 8192 {stack} 0\n"
        )
        (folder / "stat").write_text(stat)
        for number, node in enumerate(nodes):
            (folder / "fd" / str(number)).symlink_to(node)

    def end(self, pid: int) -> None:
        for path in sorted((self.root / str(pid)).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.root / str(pid)).rmdir()

    def scanner(self) -> ProcScanner:
        return ProcScanner(LibraryNames(CUDA.library_patterns), str(self.root))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    (tmp_path / "self").mkdir()
    return Proc(tmp_path)


def test_users_are_grouped_by_file(proc: Proc) -> None:
    proc.process(3, HOST)
    proc.process(5, HOST + HOST)
    proc.process(7, HOST + COPY)
    proc.process(11, LIBC)
    scan = proc.scanner().scan()
    users = scan.users()
    assert scan.seen == 4
    assert sorted(found.pid for found, _ in users[FileId(8, 1, 71)]) == [3, 5, 7]
    assert [found.pid for found, _ in users[FileId(0, 0x2F, 73)]] == [7]
    assert set(users) == {FileId(8, 1, 71), FileId(0, 0x2F, 73)}


def test_a_process_that_vanishes_while_read_is_left_out(proc: Proc) -> None:
    proc.process(3, HOST)
    (proc.root / "5").mkdir()  # nothing in it any more
    proc.process(7, HOST)
    (proc.root / "7" / "stat").unlink()  # gone after its maps were read
    assert set(proc.scanner().scan().processes) == {3}


def test_an_update_reads_new_processes_and_forgets_ended_ones(proc: Proc) -> None:
    proc.process(3, HOST)
    proc.process(5, LIBC)
    scanner = proc.scanner()
    scanner.scan()
    proc.process(7, HOST)
    proc.end(3)
    assert set(scanner.update().processes) == {7}


def test_an_update_reads_again_what_a_record_named(proc: Proc) -> None:
    proc.process(5, LIBC)
    scanner = proc.scanner()
    scanner.scan()
    proc.process(5, LIBC + HOST)
    assert set(scanner.update().processes) == set()
    assert set(scanner.update({5}).processes) == {5}


def test_a_reused_pid_is_another_process(proc: Proc) -> None:
    proc.process(3, HOST, start=101)
    scanner = proc.scanner()
    scanner.scan()
    proc.process(3, LIBC, start=103)
    assert scanner.update().processes == {}


def test_a_process_that_began_another_program_is_read_again(proc: Proc) -> None:
    proc.process(3, HOST, stack=701)
    scanner = proc.scanner()
    scanner.scan()
    assert 3 in scanner.update().processes
    proc.process(3, LIBC, stack=709)
    assert scanner.update().processes == {}


def test_a_process_without_library_but_with_a_device_is_found(proc: Proc) -> None:
    proc.process(3, LIBC, nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/null"))
    proc.process(5, LIBC, nodes=("/dev/nvidiactl", "/dev/nvidia0"))
    proc.process(7, LIBC, nodes=("/tmp/nvidia0",))
    processes = proc.scanner().scan().processes
    assert processes[3].device_nodes == ("/dev/nvidia-uvm", "/dev/nvidiactl")
    assert processes[3].computes
    assert not processes[5].computes  # what NVML opens too
    assert 7 not in processes


def test_a_look_reads_what_was_named_and_nothing_else(proc: Proc, monkeypatch) -> None:
    for pid in (3, 5, 7):
        proc.process(pid, HOST)
    scanner = proc.scanner()
    scanner.scan()
    proc.end(3)
    proc.process(9, HOST)
    listed = []
    monkeypatch.setattr(scanner, "_pids", lambda: listed.append(1))
    assert set(scanner.look({3, 9}).processes) == {5, 7, 9}
    assert not listed
    monkeypatch.undo()
    assert set(scanner.update().processes) == {5, 7, 9}


def test_devices_found_by_the_full_scan_outlive_an_update(proc: Proc) -> None:
    proc.process(3, HOST, nodes=("/dev/nvidia-uvm",))
    scanner = proc.scanner()
    scanner.scan()
    assert scanner.update({3}).processes[3].computes
    proc.process(3, HOST, start=107)
    assert not scanner.update({3}).processes[3].computes


def test_unreadable_maps_are_a_problem_not_a_crash(proc: Proc) -> None:
    for pid, nodes in ((3, ("/dev/nvidia-uvm",)), (5, ())):
        proc.process(pid, LIBC, nodes=nodes)
        (proc.root / str(pid) / "maps").unlink()
        (proc.root / str(pid) / "maps").mkdir()  # opening it fails otherwise than by its absence
    processes = proc.scanner().scan().processes
    assert "could not be read" in processes[3].problem
    assert 5 not in processes


def test_endless_maps_are_a_problem(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "MAPS_LIMIT_BYTES", 10)
    proc.process(3, LIBC)
    assert "longer than 10 bytes" in proc.scanner().scan().processes[3].problem


def test_no_proc_is_an_empty_scan(tmp_path: Path) -> None:
    scan = ProcScanner(LibraryNames(CUDA.library_patterns), str(tmp_path / "none")).scan()
    assert (scan.processes, scan.seen) == ({}, 0)


@pytest.mark.parametrize("stat", [b"", b"3 (x", b"3 (x) S 1 2", b"3 (x) " + b"a " * 50])
def test_a_start_time_that_is_not_there(stat: bytes) -> None:
    assert parse_stat(stat)[0] == -1


@given(st.binary(max_size=300))
def test_any_stat_is_survived(stat: bytes) -> None:
    assert parse_stat(stat)[0] >= -1


@given(st.binary(max_size=15).filter(lambda raw: b"\0" not in raw), st.integers(0, 2**63))
def test_any_command_name_leaves_the_start_time(comm: bytes, start: int) -> None:
    assert parse_stat(b"3 (%s) S %s%d 0" % (comm, b"0 " * 18, start))[0] == start


def test_a_process_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert open_device_nodes(3, ("/dev/nvidia",), str(tmp_path)) == ()
