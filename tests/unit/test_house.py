"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gpugauge"
TABLES = {"model/abi.py", "settings/diagnosis.py"}
"""Tables of data, and everything in vendors/cuda."""
LINES_LIMIT = 300
MEDIAN_LIMIT = 100
AMBIGUOUS = "kern" + "el"


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def lines(path: Path) -> int:
    return path.read_text().count("\n")


def names(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_is_short(path: Path) -> None:
    if name_of(path) not in TABLES and "vendors/cuda/" not in name_of(path):
        assert lines(path) <= LINES_LIMIT


def test_modules_are_short_as_a_rule() -> None:
    assert statistics.median(lines(path) for path in modules()) < MEDIAN_LIMIT


def test_tables_are_still_there() -> None:
    assert all((SOURCE / name).exists() for name in TABLES)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_ambiguous_names(path: Path) -> None:
    """The word means the heart of Linux to one reader, and a GPU function to the other."""
    assert AMBIGUOUS not in path.stem
    found = [name for name in names(ast.parse(path.read_text())) if AMBIGUOUS in name.lower()]
    assert found == []


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_path_of_a_developer_s_machine() -> None:
    foreign = re.compile(rb"/(?:work|home/\w+|Users/\w+)/(?:main|shared|src|git)\b")
    texts = [path for path in tracked() if path.is_file() and path != Path(__file__)]
    assert [str(p) for p in texts if foreign.search(p.read_bytes())] == []


def generators() -> list[Path]:
    return sorted((ROOT / "tools").glob("generate_*.py"))


@pytest.mark.parametrize("script", generators(), ids=lambda path: path.stem)
def test_generated_files_are_up_to_date(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_are_generators() -> None:
    assert {path.stem for path in generators()} >= {"generate_abi", "generate_docs"}


def test_readme_fits_a_few_screens() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 200
    for shown in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / shown).exists(), f"{shown} is linked and missing"


def test_every_make_target_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.M)
    assert phony
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \S", text, re.M), target
