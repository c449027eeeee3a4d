"""The table as text: for a terminal, and as docs/functions.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpugauge.model.abi import Slot
from gpugauge.model.function import Function
from gpugauge.vendors import CUDA
from gpugauge.vendors.text import HEADER, cells, operation_text, recorded_text, rows_text

ROOT = Path(__file__).parent.parent.parent
BY_SYMBOL = {row.symbol: row for row in CUDA.functions}


@pytest.mark.parametrize(
    ("symbol", "operation", "recorded"),
    [
        (
            "cuLaunchKernel",
            "launch",
            "calls; errors, duration; threads; stream (argument 9)",
        ),
        (
            "cuLaunchKernelEx_ptsz",
            "launch",
            "calls; errors, duration; threads, in CUlaunchConfig; stream, in CUlaunchConfig",
        ),
        (
            "cuMemcpyHtoDAsync_v2",
            "copy htod",
            "calls; errors, duration; bytes (argument 3); stream (argument 4)",
        ),
        (
            "cuMemcpyDtoH_v2_ptds",
            "copy dtoh",
            "calls; errors, duration; all of it blocked; bytes (argument 3); per-thread stream",
        ),
        (
            "cuMemsetD32_v2",
            "set",
            "calls; errors, duration; bytes (argument 3 x 4); legacy stream",
        ),
        (
            "cuMemsetD8",
            "set",
            "calls; errors, duration; bytes (argument 3, 32 bits); legacy stream",
        ),
        (
            "cuMemAllocManaged",
            "allocate",
            "calls; errors, duration; bytes (argument 2); address (managed memory)",
        ),
        (
            "cuCtxSynchronize_v2",
            "synchronize",
            "calls; errors, duration; all of it blocked; context (argument 1); ctx sync",
        ),
        (
            "cuStreamQuery",
            "poll",
            "calls; errors, duration; stream (argument 1); stream query",
        ),
        ("cuCheckpointProcessLock", "other", "calls; checkpoint lock"),
    ],
)
def test_rows_in_words(symbol: str, operation: str, recorded: str) -> None:
    assert operation_text(BY_SYMBOL[symbol]) == operation
    assert recorded_text(BY_SYMBOL[symbol]) == recorded


@pytest.mark.parametrize(
    ("core", "hot", "shown"),
    [(True, True, "core, hot"), (True, False, "core"), (False, True, "hot"), (False, False, "")],
)
def test_sets(core: bool, hot: bool, shown: str) -> None:
    function = Function(symbol="cuAny", slot=Slot.OTHER, core=core, hot=hot, returns=False)
    assert cells(7, function) == ("7", "cuAny", "other", "calls", "entry", shown)


def test_a_line_for_each_row_in_columns() -> None:
    header, *lines = rows_text(CUDA).split("\n")
    assert header.split() == list(HEADER)
    assert len(lines) == len(CUDA.functions)
    starts = [header.index(name) for name in HEADER[:-1]]
    for line, function in zip(lines, CUDA.functions, strict=True):
        assert line[starts[1] :].startswith(function.symbol + " ")
        assert all(line[start - 1] == " " and line[start] != " " for start in starts[1:])
        assert line == line.rstrip()


PROGRAM = ROOT / "tools" / "generate_docs_functions.py"


def generate(*arguments: str, program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, check=False
    )


def test_the_page_is_up_to_date_and_names_every_row() -> None:
    assert generate("--check").returncode == 0
    page = (ROOT / "docs" / "functions.md").read_text()
    assert [name for name in BY_SYMBOL if f"| `{name}` |" not in page] == []


def test_a_stale_page_is_told_with_the_remedy(tmp_path: Path) -> None:
    for name in ("src", "tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "gpugauge").symlink_to(ROOT / "src" / "gpugauge")
    (tmp_path / "docs").mkdir()
    program = tmp_path / "tools" / "generate_docs_functions.py"
    program.write_text(PROGRAM.read_text())
    page = tmp_path / "docs" / "functions.md"
    for content in (None, "", (ROOT / "docs" / "functions.md").read_text() + "x"):
        if content is not None:
            page.write_text(content)
        answer = generate("--check", program=program)
        assert answer.returncode == 1
        assert answer.stderr == "docs/functions.md is stale: run make generate\n"
    assert generate(program=program).returncode == 0
    assert generate("--check", program=program).returncode == 0
