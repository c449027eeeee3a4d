"""The scan against real processes."""

import os
import subprocess
import sys
from pathlib import Path

from gpugauge.discovery.maps import LibraryNames
from gpugauge.discovery.scan import ProcScanner, open_device_nodes, start_time
from gpugauge.vendors import CUDA
from tests import discovery_library

NAMES = LibraryNames(CUDA.library_patterns)
# Loads the library, says so, and then does what the test asks for.
USER = """
import ctypes, os, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
then = sys.argv[2]
if then == "lose-main":
    threading.Thread(target=sys.stdin.read, daemon=False).start()
    print("ready", flush=True)
    ctypes.CDLL(None).pthread_exit(None)
if then == "fork" and os.fork() == 0:
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)
if then == "exec":
    print("ready", flush=True)
    sys.stdin.readline()
    code = "import sys; print('new', flush=True); sys.stdin.read()"
    os.execv(sys.executable, [sys.executable, "-S", "-c", code])
if then == "hold":
    print("ready", flush=True)
sys.stdin.read()
"""


def started(path: Path, then: str = "hold") -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", USER, str(path), then],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def ended(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    child.stdout.close()
    child.kill()
    child.wait()


def users(scanner: ProcScanner, path: Path) -> set[int]:
    found = scanner.scan().processes.values()
    return {each.pid for each in found for mapping in each.mappings if mapping.path == str(path)}


def test_processes_are_found_with_their_start_and_lost_with_their_end(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.580.159.04")
    scanner = ProcScanner(NAMES)
    before = scanner.scan().seen
    child = started(path)
    try:
        found = scanner.update().processes[child.pid]
        assert found.start_time == start_time(child.pid) > 0
        assert [mapping.path for mapping in found.mappings] == [str(path)]
        assert before > 0
    finally:
        ended(child)
    assert child.pid not in scanner.update().processes


def test_a_forked_child_is_found(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    child = started(path, "fork")
    try:
        assert len(users(ProcScanner(NAMES), path)) == 2
    finally:
        ended(child)


def test_a_process_whose_first_thread_ended_is_still_a_user(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    scanner = ProcScanner(NAMES)
    child = started(path)
    ended(child)
    child = started(path, "lose-main")
    try:
        while Path(f"/proc/{child.pid}/maps").read_bytes():
            scanner.scan()  # until its first thread has ended
        assert users(scanner, path) == {child.pid}
        assert child.pid in scanner.update({child.pid}).processes
    finally:
        ended(child)


def test_a_process_that_executes_another_program_is_no_user_any_more(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "libcuda.so.1")
    scanner = ProcScanner(NAMES)
    child = started(path, "exec")
    try:
        assert child.pid in scanner.scan().processes
        assert child.pid in scanner.update().processes
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"new\n"
        assert child.pid not in scanner.update().processes
    finally:
        ended(child)


def test_a_newline_in_the_folder_is_read_back(tmp_path: Path) -> None:
    path = discovery_library.write(tmp_path / "a\nb" / "libcuda.so.1")
    child = started(path)
    try:
        assert users(ProcScanner(NAMES), path) == {child.pid}
    finally:
        ended(child)


def test_open_device_nodes_are_seen_by_their_links() -> None:
    with Path("/dev/null").open("rb"):
        assert open_device_nodes(os.getpid(), ("/dev/null",)) == ("/dev/null",)
        assert open_device_nodes(os.getpid(), ("/dev/nvidia",)) == ()
