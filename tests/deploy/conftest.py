"""A node for the container that the chart describes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.chart_place import NODES, SLICES, Place
from tests.k8s.fakes.api_server import NAMESPACES, PODS, TOKEN, FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("certificate")
    made = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", folder / "key.pem", "-out", folder / "ca.crt",
    ]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    (folder / "both.pem").write_bytes(
        (folder / "key.pem").read_bytes() + (folder / "ca.crt").read_bytes()
    )
    return folder


@pytest.fixture
def place(tmp_path: Path, certificate: Path) -> Iterator[Place]:
    account = tmp_path / "account"
    account.mkdir()
    shutil.copy(certificate / "ca.crt", account)
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("gpugauge")
    paths = (PODS, NAMESPACES, NODES, "/api/v1/configmaps", SLICES)
    with (
        FakeApiServer(paths=paths, tls=certificate / "both.pem") as server,
        FakeKubelet(tmp_path / "kubelet") as kubelet,
    ):
        one = Place(tmp_path, server, kubelet)
        yield one
        one.close()
