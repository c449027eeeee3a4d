"""Three written cases: one screen of 80 columns and 24 lines has layer, proof and next command."""

from __future__ import annotations

import pytest

from gpugauge.explain.text import report_text
from tests.explain import cases
from tests.explain.stage import Stage

SCREEN_LINES = 24
SCREENS = {
    "pending for a taint": (
        cases.untolerated_taint,
        ("X scheduling        BROKEN", "has taint", "nvidia.com/gpu=true:NoSchedule"),
        "kubectl -n ml get pod train-0 -w",
    ),
    "no device inside the container": (
        cases.no_device_inside,
        ("X container runtime BROKEN", "has no NVIDIA device below its"),
        "kubectl -n ml exec train-0 -c main -- ls -l /dev",
    ),
    "driver and library differ": (
        cases.driver_and_library_differ,
        ("X driver            BROKEN", "580.126.09 loaded", "580.159.04"),
        "cat /proc/driver/nvidia/version",
    ),
}


@pytest.mark.parametrize("name", SCREENS)
def test_one_screen_is_enough(stage: Stage, name: str) -> None:
    make, proofs, command = SCREENS[name]
    make(stage)
    text = report_text(stage.explain(), memory=False)
    lines = text.splitlines()
    assert len(lines) <= SCREEN_LINES, text
    assert max(map(len, lines)) <= 80
    for proof in proofs:
        assert proof in text
    # A command may be cut at the end of a line: joined, it is whole.
    joined = " ".join(line.strip(" :|") for line in lines)
    assert command in joined, text
    assert lines[-1].strip()
    assert "The request stops at" in text
