"""docs/explain.md, the checks and the fixtures speak of the same cases."""

from __future__ import annotations

import re
from pathlib import Path

from gpugauge.attribution.request_path import ENVIRONMENT
from gpugauge.explain.checks import CHECKS
from gpugauge.explain.report import Layer
from tests.explain.cases import CASES

DOCS = Path(__file__).parents[2] / "docs" / "explain.md"
NUMBERS = {*range(1, 48)} - {12, 15, 20}
"""The catalogue's: three numbers are not given."""
AT_LEAST = 36


def rows() -> dict[int, list[str]]:
    found = {}
    for line in DOCS.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].isdecimal():
            assert int(cells[0]) not in found
            found[int(cells[0])] = cells
    return found


def test_every_number_is_listed() -> None:
    assert set(rows()) == NUMBERS


def test_what_is_listed_as_recognised_is() -> None:
    recognised = {number for number, cells in rows().items() if len(cells) == 5}
    assert len(recognised) >= AT_LEAST
    assert {one.number for one in CASES} - {0} == recognised
    assert {number for one in CHECKS for number in one.cases} == recognised


def test_layers_are_those_of_the_fixtures() -> None:
    for number, cells in rows().items():
        if len(cells) == 5:
            told = {Layer(name.strip()) for name in cells[1].split(",")}
            assert {one.layer for one in CASES if one.number == number} <= told


def test_guesses_are_said_to_be_some() -> None:
    for one in CASES:
        if one.guess:
            assert "a guess" in " ".join(rows()[one.number])


def test_the_list_of_names_is_documented() -> None:
    text = DOCS.read_text()
    assert set(re.findall(r"`((?:NVIDIA|CUDA)_[A-Z_]+)`", text)) >= set(ENVIRONMENT)
    listed = text[text.index("No secret is read") : text.index("## What to know")]
    assert set(re.findall(r"`([A-Z_]+)`", listed)) == set(ENVIRONMENT)


def test_checks_have_names_of_their_own() -> None:
    names = [(one.layer, one.name) for one in CHECKS]
    assert len(set(names)) == len(names)
