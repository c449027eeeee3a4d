"""`make test-gpu`: the validation on the GPU of this machine, and its incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu import incidents, validate


@pytest.mark.gpu
@pytest.mark.timeout(1200)
def test_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.fail("there is no NVIDIA GPU on this machine: run `make test` instead")
    monkeypatch.setattr("sys.argv", ["validate", "--out", str(tmp_path)])
    assert validate.main() == 0, (tmp_path / "table-auto.md").read_text()


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_incidents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.fail("there is no NVIDIA GPU on this machine: run `make test` instead")
    monkeypatch.setattr("sys.argv", ["incidents", "--out", str(tmp_path)])
    assert incidents.main() == 0, (tmp_path / "report.md").read_text()
