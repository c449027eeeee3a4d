"""docs/permissions.md is held to: what is served of a process's environment, and what is read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gpugauge.attribution.request_path import ENVIRONMENT, VALUE_LIMIT
from gpugauge.explain.gather.container_files import environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "permissions.md").read_text()
MODULES = sorted((ROOT / "src").rglob("*.py"))


def test_the_page_names_every_variable_that_is_served_and_no_other() -> None:
    assert tuple(re.findall(r"^- `(\w+)`$", PAGE, re.MULTILINE)) == ENVIRONMENT
    assert f"at most {VALUE_LIMIT} characters" in PAGE


def test_of_a_process_only_those_are_kept() -> None:
    secret = "hunter2" * 7
    given = {name: f"value of {name}" for name in ENVIRONMENT}
    others = {"AWS_SECRET_ACCESS_KEY": secret, "NVIDIA_VISIBLE_DEVICES_": secret, "cuda": secret}
    long = {"CUDA_VISIBLE_DEVICES": "7" * 9973}
    command = [sys.executable, "-c", "print(flush=True); input()", secret]
    with subprocess.Popen(
        command, env=given | others | long, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = environment(f"/proc/{child.pid}")
        child.communicate(b"\n")
    assert found is not None
    assert found == given | {"CUDA_VISIBLE_DEVICES": "7" * (VALUE_LIMIT - 1) + "…"}
    assert secret not in str(found)


def test_environments_are_read_in_one_place_and_command_lines_nowhere() -> None:
    reads = [path.name for path in MODULES if re.search(r"/environ[\"']", path.read_text())]
    assert reads == ["container_files.py"]
    assert not [path for path in MODULES if re.search(r"/cmdline[\"']", path.read_text())]
