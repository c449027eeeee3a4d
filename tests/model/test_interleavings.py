"""Every interleaving of the state machines behind known idle and blocked wall time.

`explore` is bpf/idle.bpf.h and bpf/blocked.bpf.h, compiled for this machine with
a stop before each access to shared memory. The variants with a known mistake
show that the search would find one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# (prefix run in one go, scripts of the threads): a/b submit on stream 1/2, s/t wait for
# stream 1/2, c waits for all, B blocks by nature, W turns out to have waited.
IDLE = [
    ("", ("as", "a")),
    ("", ("as", "b")),
    ("", ("ac", "a")),
    ("a", ("sa", "a")),
    ("a", ("sa", "b")),
    ("a", ("sa", "s")),
    ("a", ("s", "s")),
    ("ab", ("c", "a")),
    ("ab", ("s", "t")),
    ("as", ("a", "sa")),
]
BLOCKED = [("", ("B", "B")), ("", ("B", "W")), ("", ("W", "W")), ("", ("BW", "B"))]
LONG = [
    ("", ("asa", "a")),
    ("", ("BB", "B")),
    ("a", ("sa", "ca")),
]


@pytest.fixture(scope="session")
def explore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler: install gcc"
    program = tmp_path_factory.mktemp("model") / "explore"
    subprocess.run(
        [compiler, "-O2", "-std=gnu11", "-o", program, HERE / "explore.c"],
        check=True,
        capture_output=True,
    )
    return program


def runs(
    explore: Path, variant: str, prefix: str, scripts: tuple[str, ...], timeout: int = 100
) -> tuple[int, int, int]:
    """Return (interleavings, false ones, those with the exact blocked wall time)."""
    done = subprocess.run(
        [explore, variant, prefix, *scripts], capture_output=True, check=True, timeout=timeout
    )
    explored, false, exact = map(int, done.stdout.split())
    return explored, false, exact


@pytest.mark.parametrize(("prefix", "scripts"), IDLE)
def test_idle_is_never_claimed_while_work_is_outstanding(
    explore: Path, prefix: str, scripts: tuple[str, ...]
) -> None:
    explored, false, _ = runs(explore, "real", prefix, scripts)
    assert explored > 900
    assert false == 0


@pytest.mark.parametrize(("prefix", "scripts"), BLOCKED)
def test_blocked_wall_time_is_a_lower_bound_and_never_falls(
    explore: Path, prefix: str, scripts: tuple[str, ...]
) -> None:
    explored, false, exact = runs(explore, "real", prefix, scripts)
    assert explored > 900
    assert false == 0
    assert exact > 0


@pytest.mark.parametrize(
    ("mistake", "prefix", "scripts"),
    [
        ("check-then-set", "a", ("sa", "a")),
        ("open-ignored", "a", ("sa", "a")),
        ("two-words", "", ("B", "B")),
    ],
)
def test_the_search_finds_each_known_mistake(
    explore: Path, mistake: str, prefix: str, scripts: tuple[str, ...]
) -> None:
    _, false, _ = runs(explore, mistake, prefix, scripts)
    assert false > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("prefix", "scripts"), LONG)
def test_longer_scripts(explore: Path, prefix: str, scripts: tuple[str, ...]) -> None:
    explored, false, _ = runs(explore, "real", prefix, scripts, timeout=1700)
    assert explored > 1_000_000
    assert false == 0
