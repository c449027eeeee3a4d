"""`gpugauge demo` as a person starts it: counts that agree, and three incidents that are named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpugauge.agent.demo_incidents import INCIDENTS
from tests.linux.agents import ROOT


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_demo_names_its_incidents() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpugauge", "demo"],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERENT" not in done.stdout
    for incident in INCIDENTS:
        assert f"WARNING {incident.rule}" in done.stdout
    assert "log_tensor" in done.stdout
    assert "next: Raise the CPU limit" in done.stdout
