"""Programs of tests that several files use, built once a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("hazards.c")


@pytest.fixture(scope="session")
def hazards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hazards") / "hazards"
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result"]
    subprocess.run([*command, "-o", made, SOURCE, "-ldl", "-lpthread"], check=True)
    return made
