"""Every failure: the right layer and case, the proof, the remedy, and the whole answer as text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpugauge.explain.checks import CHECKS
from gpugauge.explain.report import Verdict
from gpugauge.explain.text import report_text
from tests.explain.cases import CASES, Case
from tests.explain.stage import Stage

GOLDEN = Path(__file__).parent / "golden"
WRITE = "EXPLAIN_WRITE_GOLDEN"
"""Set it to have the golden files written, then read them."""
SECRET = "hunter2"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failure_is_named_with_its_layer_proof_and_remedy(stage: Stage, case: Case) -> None:
    case.make(stage)
    report = stage.explain(case.wanted)
    text = report_text(report)
    path = GOLDEN / f"{case.name}.txt"
    if os.environ.get(WRITE):
        path.write_text(text)
    step = next(one for one in report.steps if one.layer is case.layer)
    found = [one for one in step.answers if one.verdict is case.verdict and case.proof in one.seen]
    assert found, text
    assert found[0].case == case.number
    assert found[0].guess is case.guess
    assert case.step in found[0].next_step
    assert found[0].expected
    declared = {(one.layer, one.name): one.cases for one in CHECKS}
    for each in report.steps:
        for answer in each.answers:
            assert answer.case in (0, *declared.get((each.layer, answer.check), ()))
    if case.verdict is Verdict.BROKEN:
        assert report.broken == case.layer.value, text
        assert found[0].seen in report.conclusion
    else:
        assert report.broken == "", text
    assert SECRET not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text == path.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {case.name for case in CASES}
