"""No traced process ends differently than without the agent, whatever it does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpugauge.discovery.inspect import Inspector
from gpugauge.model.abi import Loss
from tests.linux.tracing import VENDOR, OwnMachine, Traced, traced

FOREIGN_32 = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
/* Maps the code of a 64-bit library and calls into it, as no program would. */
int main(int argc, char **argv)
{
    int handle = open(argv[1], O_RDONLY);
    long offset = strtol(argv[2], 0, 0);
    char *code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, handle, offset & ~4095L);
    if (code == MAP_FAILED)
        return 2;
    printf("calls\\n");
    fflush(stdout);
    return ((int (*)(void))(code + (offset & 4095)))();
}
"""
SITES = {"uuid": "cuDeviceGetUuid", "use": "cuCtxSetCurrent"}


def run(machine: OwnMachine, command: list[str], timeout_s: float = 60) -> tuple[int, str, str]:
    """Return how a program ends: exit code or signal, and what it prints."""
    with machine.start(command) as child:
        out, error = child.communicate(timeout=timeout_s)
    return child.returncode, out, error


def same(it: Traced, command: list[str]) -> tuple[int, str]:
    """Run a program without probes and with them; both must end alike."""
    without = run(it.machine, command)
    it.attach()
    assert run(it.machine, command) == without
    return without[0], without[1]


@pytest.mark.parametrize("mode", ["session", "multi"])
@pytest.mark.parametrize(
    ("hazard", "times", "code", "out"),
    [
        ("plain", 101, 17, "uid 0\n"),
        ("signals", 2003, 0, "ticks 1\n"),
        ("jump", 53, 0, "jumps 53\n"),
        ("thread-exit", 47, 0, "left 7\n"),
        ("exit", 1, 41, ""),
        ("fork", 11, 0, "0 5\n" * 11),
        ("vfork", 11, 0, "0 0\n" * 11),
        ("exec", 1, 17, "uid 0\n"),
        ("seccomp", 1009, 0, "right\n"),
        ("ptrace", 101, 0, "child ended 11\n"),
        ("reload", 61, 0, "reloaded\n"),
    ],
)
def test_it_ends_as_without_probes(
    tmp_path: Path, hazards: Path, mode: str, hazard: str, times: int, code: int, out: str
) -> None:
    ends_as(tmp_path, mode, hazards, (hazard, times), (code, out))


@pytest.mark.parametrize("hazard", ["jump", "fork"])
def test_it_ends_as_without_perf_probes(tmp_path: Path, hazards: Path, hazard: str) -> None:
    out = {"jump": "jumps 7\n", "fork": "0 5\n" * 7}[hazard]
    ends_as(tmp_path, "perf", hazards, (hazard, 7), (0, out))


def ends_as(
    folder: Path, mode: str, hazards: Path, hazard: tuple[str, int], end: tuple[int, str]
) -> None:
    with traced(folder, mode, attach=False, instant=1) as it:
        name, times = hazard
        assert same(it, [str(hazards), str(it.machine.library), name, str(times)]) == end
        assert set(it.losses()) <= {Loss.ABANDONED_CALLS, Loss.POINTER_UNKNOWN}


@pytest.mark.parametrize(
    ("hazard", "times"), [("plain", 101), ("signals", 997), ("ptrace", 101), ("reload", 31)]
)
def test_and_its_calls_are_all_counted(
    tmp_path: Path, hazards: Path, hazard: str, times: int
) -> None:
    with traced(tmp_path, instant=1) as it:
        command = [str(hazards), str(it.machine.library), hazard, str(times)]
        run(it.machine, command)
        counted, truth = it.counted(), it.truth()
        assert counted.calls == truth.calls
        assert counted.errors == truth.errors
        assert it.losses() == {}


@pytest.mark.parametrize("mode", ["session", "multi"])
def test_a_program_that_changes_its_user(tmp_path: Path, hazards: Path, mode: str) -> None:
    """Set-user-id: other memory, other credentials, the same probes."""
    folder = tmp_path / "program"
    folder.mkdir()
    own = folder / "hazards"
    shutil.copy(hazards, own)
    os.chown(own, 65534, 65534)
    own.chmod(0o4755)
    with traced(tmp_path, mode, attach=False, instant=1) as it:
        for each in (tmp_path, *tmp_path.parents[:-2]):
            each.chmod(each.stat().st_mode | 0o055)
        for each in tmp_path.iterdir():
            if each.is_file():
                each.chmod(0o666)
        (it.machine.state.parent).chmod(0o777)
        code, out = same(it, [str(own), str(it.machine.library), "plain", "31"])
        assert (code, out) == (17, "uid 65534\n")
        assert it.losses() == {}


def test_a_32_bit_program_in_64_bit_code(tmp_path: Path) -> None:
    """Its calls make no sense, with probes and without: it dies of the same signal."""
    source, made = tmp_path / "foreign.c", tmp_path / "foreign"
    source.write_text(FOREIGN_32)
    subprocess.run(["gcc", "-m32", "-D_FILE_OFFSET_BITS=64", "-o", made, source], check=True)
    with traced(tmp_path, attach=False, instant=1) as it:
        library = Inspector(VENDOR).inspect(str(it.machine.library)).library
        site = next(s for s in library.sites if s.symbol == SITES["use"])
        command = [str(made), str(it.machine.library), hex(site.file_offset)]
        code, out = same(it, command)
        assert code < 0  # a signal
        assert out == "calls\n"


@pytest.mark.parametrize("mode", ["session", "multi"])
def test_probes_that_come_and_go_under_calls(tmp_path: Path, hazards: Path, mode: str) -> None:
    """Attached and detached while a program calls: it never notices."""
    with traced(tmp_path, mode, attach=False, instant=1) as it:
        come_and_go(it, hazards, rounds=7)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_probes_that_come_and_go_a_thousand_times(tmp_path: Path, hazards: Path) -> None:
    with traced(tmp_path, attach=False, instant=1) as it:
        come_and_go(it, hazards, 1000)


def come_and_go(it: Traced, hazards: Path, rounds: int) -> None:
    command = [str(hazards), str(it.machine.library), "fork", "100000"]
    loads = [it.machine.start(command), it.machine.start([*command[:2], "jump", "100000000"])]
    library = Inspector(VENDOR).inspect(str(it.machine.library)).library
    try:
        for _ in range(rounds):
            it.tracer.attach(library)
            it.tracer.release(library.file_id)
            assert [child.poll() for child in loads] == [None, None]
        assert it.tick().processes
    finally:
        for child in loads:
            child.kill()
            with child:
                child.communicate()
