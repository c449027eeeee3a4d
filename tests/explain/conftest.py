"""One API server for all, a kubelet and a stage for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explain.stage import Stage
from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet


@pytest.fixture(scope="session")
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as running:
        yield running


@pytest.fixture
def stage(tmp_path: Path, cluster: FakeApiServer) -> Iterator[Stage]:
    kubelet = FakeKubelet(tmp_path / "kubelet")
    with kubelet:
        yield Stage(tmp_path, cluster, kubelet)
