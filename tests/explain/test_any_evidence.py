"""Whatever was gathered: the walk ends, fits 80 columns, and goes through JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from gpugauge.explain import page
from gpugauge.explain.evidence import Evidence
from gpugauge.explain.report import Verdict
from gpugauge.explain.text import WIDTH, report_text
from gpugauge.explain.walk import walk
from tests.support.snapshots import GPU_A

WORDS = (
    "", "nvidia.com/gpu", "1", "2", "x", "ml", "train-0", "main", "Running", "Failed", "Pending",
    "running", "waiting", "terminated", "Exists", "NoSchedule", "nvidia", "all", "void", "mps",
    "single", "nvidia0", "nvidiactl", "nvidia-uvm", "vfio-pci", "nouveau", "exclusive_process",
    "gpu.nvidia.com", "580.159.04", GPU_A, f"{GPU_A}::1", "unknown", "CrashLoopBackOff",
    "UnexpectedAdmissionError", "NVRM: Xid (PCI:0000:01:00): 79, x", "avc: denied nvidia",
    "no runtime for \"nvidia\" is configured", "0/3: 1 Insufficient nvidia.com/gpu",
    "had untolerated taint", "cannot allocate all claims", "\x1b[31m",
)  # fmt: skip


@cache
def of(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of a type of the model, words of this field among them."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.none() | of(next(one for one in inner if one is not type(None)))
    if origin is tuple:
        return st.lists(of(inner[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(of_key(inner[0]), of(inner[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(
            hint,
            **{
                f.name: of(hints[f.name])
                if f.default is MISSING and f.default_factory is MISSING
                else st.just(f.default if f.default is not MISSING else f.default_factory())
                | of(hints[f.name])
                for f in fields(hint)  # type: ignore[arg-type]
            },
        )
    plain = {
        str: st.sampled_from(WORDS),
        int: st.sampled_from((0, 1, 7, 46, 79, 135, 195, 802, 999, 2**40)),
        bool: st.booleans(),
        float: st.floats(0, 1),
    }
    return plain[hint]


def of_key(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) is tuple:
        first, second = get_args(hint)
        return st.tuples(of(first), of(second))
    return of(hint)


@settings(max_examples=100)
@given(of(Evidence), st.sampled_from(["", "ml/train-0"]))
def test_any_evidence_is_walked(evidence: Evidence, wanted: str) -> None:
    object.__setattr__(evidence, "pod_wanted", wanted)
    report = walk(evidence)
    for step in report.steps:
        assert step.answers
        assert all(answer.seen for answer in step.answers)
        if step.verdict is Verdict.OK:
            assert {answer.verdict for answer in step.answers} == {Verdict.OK}
        for answer in step.answers:
            if answer.verdict in (Verdict.BROKEN, Verdict.WARNING):
                assert answer.expected and answer.next_step
    lines = report_text(report).split("\n")
    assert all(len(line) <= WIDTH and line.isprintable() for line in lines)
    assert report.conclusion
    assert json.loads(json.dumps(page.report_plain(report)))
    assert page.load_evidence(page.dump(evidence, report)) == evidence
