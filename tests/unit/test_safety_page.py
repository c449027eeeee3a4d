"""docs/safety.md names tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "safety.md"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text())))


@pytest.mark.parametrize(("file", "function"), NAMED, ids=["::".join(each) for each in NAMED])
def test_it_is_there(file: str, function: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_rule_names_a_test_or_says_why_not() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    rules = [line for line in rows if line != "| rule | held by |"]
    assert len(rules) > 40
    without = [line for line in rules if "::" not in line]
    reasons = ("No test holds a time", "Nothing to test", "A limit, not a rule")
    assert [line for line in without if not any(reason in line for reason in reasons)] == []
