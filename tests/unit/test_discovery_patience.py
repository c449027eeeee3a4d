"""A process that does not let itself be read: its maps are a FIFO that nobody writes to."""

import os
import threading
from pathlib import Path

import pytest

from gpugauge.discovery import patience as patiences
from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.patience import Patience
from gpugauge.discovery.scan import ProcScanner
from gpugauge.errors import UnavailableError
from gpugauge.vendors import CUDA
from tests.unit.test_discovery_scan import HOST, LIBC, Proc

PATIENCE_NS = 50_000_000


def hang(proc: Proc, pid: int) -> Path:
    proc.process(pid, LIBC)
    maps = proc.root / str(pid) / "maps"
    maps.unlink()
    os.mkfifo(maps)
    return maps


def answer(*fifos: Path) -> None:
    """Let those who wait go on, and wait until they have."""
    for maps in fifos:
        with maps.open("wb") as file:
            file.write(HOST)
    for thread in threading.enumerate():
        if thread.name == "proc-reader":
            thread.join(10)
            assert not thread.is_alive()


def test_it_is_passed_over_until_it_answers(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.process(3, HOST)
    proc.process(7, HOST)
    maps = hang(proc, 5)
    names = LibraryNames(CUDA.library_patterns)
    scanner = ProcScanner(names, str(tmp_path), patience=Patience(PATIENCE_NS))
    found = scanner.scan().processes
    assert {pid for pid, each in found.items() if each.mappings} == {3, 7}
    assert found[5].problem == "its maps do not answer"
    proc.process(11, HOST)
    assert 11 in scanner.update({5}).processes  # and no second thread waits for 5
    assert [t.name for t in threading.enumerate()].count("proc-reader") == 1
    answer(maps)
    maps.unlink()
    proc.process(5, HOST)
    assert {pid for pid, each in scanner.scan().processes.items() if each.mappings} == {3, 5, 7, 11}


def test_too_many_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patiences, "STUCK_LIMIT", 2)
    proc = Proc(tmp_path)
    fifos = [hang(proc, pid) for pid in (3, 5, 7)]
    scanner = ProcScanner(LibraryNames([]), str(tmp_path), patience=Patience(PATIENCE_NS))
    with pytest.raises(UnavailableError, match="do not let their memory maps be read"):
        scanner.scan()
    stuck = {str(pid) for pid in scanner._patience.stuck()}
    assert len(stuck) == 2
    answer(*(maps for maps in fifos if maps.parent.name in stuck))
    assert scanner._patience.stuck() == frozenset()


def test_results_and_errors_come_back() -> None:
    patience = Patience(PATIENCE_NS)
    assert patience.run(lambda: 17) == 17
    with pytest.raises(ZeroDivisionError):
        patience.run(lambda: 1 // 0)
    patience.at(3)  # outside a step it says nothing
    assert patience.stuck() == frozenset()
