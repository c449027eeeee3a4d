"""Fakes as fixtures, and watches with times short enough for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpugauge.attribution.api_server import ApiServer
from gpugauge.attribution.pod_store import PodStore
from gpugauge.attribution.pods import PodWatch
from gpugauge.attribution.watch_limits import WatchLimits
from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import NODE
from tests.k8s.fakes.waiting import until
from tests.k8s.gauges import Cluster
from tests.k8s.kubectl import as_plugin, use_kubectl

SHORT = WatchLimits(
    watch_seconds=20.0,
    silence_seconds=30.0,
    read_seconds=0.4,
    list_seconds=2.0,
    backoff_first_seconds=0.02,
    backoff_last_seconds=0.1,
    forbidden_seconds=0.1,
    jitter_seconds=0.02,
    page_bytes=256 << 10,
    line_bytes=128 << 10,
    page_items=64,
)


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as running:
        yield running


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    fake = FakeKubelet(tmp_path / "kubelet")
    with fake:
        yield fake


@pytest.fixture
def store() -> PodStore:
    return PodStore()


@pytest.fixture
def watch(
    server: FakeApiServer, store: PodStore, tmp_path: Path
) -> Iterator[Callable[..., PodWatch]]:
    """Start a watch of the fake server; more settings of its limits as arguments."""
    started: list[PodWatch] = []
    kubeconfig = str(server.kubeconfig(tmp_path))

    def start(limits: WatchLimits = SHORT, **settings: Any) -> PodWatch:
        def connect(read_seconds: float) -> ApiServer:
            return ApiServer(kubeconfig=kubeconfig, read_seconds=read_seconds, **settings)

        one = PodWatch(store, NODE, connect, limits=limits)
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.stop()
        assert one.pods._thread is not None and not one.pods._thread.is_alive()
        assert one.namespaces._thread is not None and not one.namespaces._thread.is_alive()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A made-up cluster for `kubectl gpugauge`, which is what the command is called then."""
    use_kubectl(tmp_path, monkeypatch)
    as_plugin(monkeypatch)
    monkeypatch.setenv("COLUMNS", "160")
    with FakeApiServer() as server:
        made = Cluster(server, tmp_path)
        yield made
        made.close()
        # Every kubectl has ended with the command that started it.
        until(lambda: server.forwards.open_now == 0)
