"""The real kubectl, as a user has it: on the PATH, with a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / ".tools/bin"


def use_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the kubectl that `make tools` fetches first on the PATH."""
    assert (TOOLS / "kubectl").exists(), "these tests need kubectl: make tools"
    monkeypatch.setenv("PATH", f"{TOOLS}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECACHEDIR", str(folder / "kube-cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def as_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start gpugauge under the name by which kubectl finds it."""
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/kubectl-gpugauge"])
