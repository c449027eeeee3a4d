"""Agents of a made-up cluster: each serves its real pages, with snapshots as a test wrote them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpugauge.agent.bugreport import REPORT_PATH, settings_part
from gpugauge.codec.snapshot import dump_snapshot
from gpugauge.export.exposition import Exposition
from gpugauge.export.http import Answer, Page, Request, Server
from gpugauge.export.pages import standard_pages
from gpugauge.model.finding import Finding
from gpugauge.model.snapshot import Snapshot
from gpugauge.settings import ListenSettings, Settings
from tests.k8s.fakes import objects
from tests.k8s.fakes.api_server import NODES, PODS, FakeApiServer

SNAPSHOT = "/api/v1/snapshot"
FINDINGS = "/api/v1/findings"
NAMESPACE = "gauges"


class Agent:
    """Answers each question for a snapshot with the next one, and the last one for ever."""

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        findings: Sequence[Finding] = (),
        *,
        settings: Settings | None = None,
        old: bool = False,
        token_file: str = "",
    ) -> None:
        """Serve at once.

        Args:
            snapshots: In the order of the questions.
            findings: That are open.
            settings: As the agent tells them.
            old: As agents were: no findings, no report, and no field that came later.
            token_file: Has the token that the API wants.
        """
        self.asked: list[str] = []
        self._left = list(snapshots)
        self._findings = tuple(findings)
        self._exposition = Exposition((settings or Settings()).series)
        self._old = old
        pages = standard_pages(self._exposition, Settings())
        self._pages = dict(pages)
        pages = {path: replace(page, answer=self._noted(path)) for path, page in pages.items()}
        if old:
            del pages[FINDINGS]
        else:
            told = {"settings": settings_part(settings or Settings())}
            report = Answer(json.dumps(told).encode(), "application/json")
            pages[REPORT_PATH] = Page(lambda _: report)
        listen = ListenSettings(address="127.0.0.1", port=0, bearer_token_file=token_file)
        self._server = Server(listen, pages)
        self._server.start()
        self.port = self._server.port

    def close(self) -> None:
        self._server.close()

    def publish(self) -> None:
        """Show the next snapshot, without a question."""
        self._exposition.publish(self._left.pop(0), self._findings)

    def _noted(self, path: str) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            self.asked.append(path)
            if path == SNAPSHOT and self._left:
                self.publish()
            if path == SNAPSHOT and self._old:
                assert self._exposition.snapshot is not None
                plain = json.loads(dump_snapshot(self._exposition.snapshot))
                del plain["agent"]["started_ns"], plain["agent"]["off_switches"]
                return Answer(json.dumps(plain).encode(), "application/json")
            return self._pages[path].answer(request)

        return answer


class BadAgent:
    """A port on which something answers as it should not.

    `silent`: accepts and says nothing. `half`: ends in the middle of an answer. `huge`: says how
    much will come; `endless` does not. `drip`: a byte now and then. `web`: another program's page.
    """

    def __init__(self, how: str) -> None:
        self._how = how
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.asked: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            end.recv(4096)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            if self._how == "half":
                end.sendall(head + b'Content-Length: 5003\r\n\r\n{"version": 1, "agent_ver')
            elif self._how == "huge":
                end.sendall(head + b"Content-Length: 1099511627791\r\n\r\n")
                self._over.wait()
            elif self._how == "endless":
                end.sendall(head + b"\r\n")
                while not self._over.is_set():
                    end.sendall(b" " * 65_536)
            elif self._how == "drip":
                end.sendall(head + b"Content-Length: 5003\r\n\r\n")
                while not self._over.is_set():
                    end.sendall(b" ")
                    time.sleep(0.02)
            elif self._how == "web":
                end.sendall(head + b"Content-Length: 13\r\n\r\n<html></html>")
            else:
                self._over.wait()


class Cluster:
    """An API server, nodes with GPUs, and a pod of the agent on each."""

    def __init__(self, server: FakeApiServer, folder: Path) -> None:
        self.server = server
        server.paths = {PODS, NODES}
        # Without TLS kubectl sends no token.
        server.tokens.add("")
        self.kubeconfig = str(server.kubeconfig(folder))
        self.agents: list[Agent | BadAgent] = []

    def node(self, name: str, agent: Agent | BadAgent | None = None, *, ready: str = "") -> str:
        """Add a node; return the name of its agent's pod.

        Args:
            name: Of the node.
            agent: What answers in the pod; None: nothing listens.
            ready: Why the pod is not ready; "" for a ready one.
        """
        node = {"metadata": {"name": name}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
        self.server.put(NODES, node)
        pod = f"gpugauge-{name}"
        self.server.put(PODS, agent_pod(pod, name, ready))
        if agent is not None:
            self.agents.append(agent)
            self.server.forwards.ports[(NAMESPACE, pod, 9836)] = agent.port
        return pod

    def pod(self, name: str, node: str, namespace: str = "ml", **more: Any) -> None:
        """Add a tenant's pod."""
        self.server.put(PODS, objects.pod(name, namespace, node=node, **more))

    def close(self) -> None:
        # A server looks up from its socket ten times a second: all of them at the same time.
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda agent: agent.close(), self.agents))


def agent_pod(name: str, node: str, why_not_ready: str = "") -> objects.Object:
    """Return a pod of the chart."""
    labels = {"app.kubernetes.io/name": "gpugauge", "app.kubernetes.io/instance": "x"}
    pod = objects.pod(name, NAMESPACE, node=node, labels=labels)
    pod["spec"]["containers"] = [
        {"name": "agent", "ports": [{"name": "metrics", "containerPort": 9836}]}
    ]
    ready = "False" if why_not_ready else "True"
    pod["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    if why_not_ready:
        waiting = {"name": "agent", "state": {"waiting": {"reason": why_not_ready}}}
        pod["status"]["containerStatuses"] = [waiting]
    return pod
