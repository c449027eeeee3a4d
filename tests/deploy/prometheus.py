"""A real Prometheus on loopback, with the shipped rules, that scrapes every second."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.promql import ROOT, RULES
from tests.k8s.fakes.waiting import until

PROGRAM = ROOT / ".tools" / "bin" / "prometheus"
CLUSTER = "test"


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, **words: str | list[str]) -> Any:
        """Return the data of an answer of its API.

        Raises:
            ValueError: it refused the question.
        """
        given = urllib.parse.urlencode(words, doseq=True)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{given}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(json.loads(error.read())["error"]) from None

    def query(self, expr: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """Return the lines of a query, for now or for a time in seconds of Unix time."""
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return list(self.ask("query", query=expr, **when)["result"])

    def values(self, label: str, selector: str) -> list[str]:
        """Return the values of a label, of those series."""
        words = {"match[]": selector} if selector else {}
        return list(self.ask(f"label/{label}/values", **words))

    @property
    def ready(self) -> bool:
        """Whether it answers."""
        try:
            url = f"http://127.0.0.1:{self.port}/-/ready"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, int]) -> Iterator[Prometheus]:
    """Yield a server that scrapes ports of loopback, by job.

    Args:
        folder: A folder for its settings, its data (in `data`) and its log.
        targets: Port by job.
    """
    jobs = [
        {
            "job_name": job,
            "honor_labels": True,
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}"], "labels": {"cluster": CLUSTER}},
            ],
        }
        for job, port in targets.items()
    ]
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES / "*.yaml")],
        "scrape_configs": jobs,
    }
    with started_with(folder, settings) as server:
        yield server


@contextmanager
def started_with(folder: Path, settings: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Yield a server with these settings, which is ended by its id.

    Args:
        folder: A folder for its settings, its data (in `data`) and its log.
        settings: What prometheus.yaml holds.
    """
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(dict(settings)))
    port = free_port()
    command = [
        str(PROGRAM),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    assert PROGRAM.exists(), "this test needs Prometheus: make tools"
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        server = Prometheus(port)

        def started() -> bool:
            assert child.poll() is None, (folder / "log").read_text()
            return server.ready

        until(started, seconds=60)
        yield server
    finally:
        child.terminate()
        child.wait(30)
