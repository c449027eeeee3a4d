"""The node and the cluster of documented commands: `python -m tests.deploy.docs_node FOLDER`.

Runs in a network name space of its own, where port 9836 is free whatever else this machine runs:
a fake API server, a kubelet, a pod `ml/train-0` that works on a simulated GPU, and the agent of
its node. The first line of output has what a command needs to meet them.

The API server also takes POST of /docs/begin/chart and /docs/begin/empty, before the commands of a
document: the cluster is as at first, with the chart installed or without. And of /docs/port/usual,
/docs/port/other and /docs/port/none: whether the agent answers at its usual port on this host, or
leaves it to a forwarded one, or to an agent that a command starts, and then has no probes either.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.deploy.docs_api import DocsApiServer
from tests.deploy.stage import BusyPod
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import NODE, Object, pod
from tests.k8s.fakes.waiting import until
from tests.k8s.whole import Cluster
from tests.linux.agents import AgentProcess, metrics

ROOT = Path(__file__).resolve().parents[2]
AGENT_PORT, USUAL_PORT = 19_836, 9_836
LABELS = {"app.kubernetes.io/name": "gpugauge", "app.kubernetes.io/instance": "gpugauge"}
HELM = (".tools/bin/helm", "upgrade", "--install", "gpugauge", "deploy/helm/gpugauge")


class Server(DocsApiServer):
    """Begins each document with the same objects."""

    def __init__(self) -> None:
        super().__init__()
        self.relay = Relay()
        self.kubeconfig_path = ""
        self.agent: AgentProcess | None = None
        self._first: dict[str, dict[str, Object]] | None = None

    def ask(self, what: str) -> None:
        """Set the stage."""
        if what.startswith("port/"):
            self.relay.on(what == "port/usual")
            return self._probes(what != "port/none")
        if self._first is None:
            self._first = copy.deepcopy(self.objects)
        self._restore(self._first)
        if what == "begin/chart":
            command = [*HELM, "--namespace", "gpugauge", "--create-namespace"]
            environment = os.environ | {"KUBECONFIG": self.kubeconfig_path}
            subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)
        return None

    def _restore(self, first: dict[str, dict[str, Object]]) -> None:
        """Make everything as it was, in steps that a watch sees."""
        for path, held in list(self.objects.items()):
            for key in held.keys() - first.get(path, {}).keys():
                self.delete(path, held[key])
        for path, wanted in first.items():
            for item in wanted.values():
                self.put(path, item)

    def _probes(self, on: bool) -> None:
        """Let the agent have its probes, or not: two agents do not share a library."""
        agent = self.agent
        assert agent is not None
        os.kill(agent.child.pid, signal.SIGUSR2 if on else signal.SIGUSR1)
        until(lambda: bool(attached(agent.get("/metrics"))) is on, seconds=30)


def attached(text: str) -> float:
    """Return how many probes are attached."""
    found = metrics(text, "gpugauge_agent_probes")
    return sum(value for labels, value in found.items() if ("state", "attached") in labels)


class Relay:
    """The agent's usual port on this host, where it is wanted."""

    def __init__(self) -> None:
        self._listening: socket.socket | None = None

    def on(self, wanted: bool) -> None:
        """Listen, or do not."""
        if self._listening is not None and not wanted:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None
        elif self._listening is None and wanted:
            # An agent that a command started may still be ending.
            self._listening = until(_listen, seconds=60)
            threading.Thread(target=self._serve, args=(self._listening,), daemon=True).start()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", AGENT_PORT))
            for ends in ((one, other), (other, one)):
                threading.Thread(target=_pass, args=ends, daemon=True).start()


def _listen() -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", USUAL_PORT))
    except OSError:
        return None


def _pass(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def agent_pod() -> Object:
    """Return the agent's pod as the chart makes it."""
    one = pod("gpugauge-x7k2p", "gpugauge", labels=LABELS, owner=("DaemonSet", "gpugauge"))
    ports = [{"name": "metrics", "containerPort": USUAL_PORT}]
    one["spec"]["containers"] = [{"name": "agent", "ports": ports}]
    one["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return one


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    with Server() as server, FakeKubelet(folder / "kubelet") as kubelet:
        cluster = Cluster(folder, server, kubelet)
        server.kubeconfig_path = str(cluster.kubeconfig)
        cluster.pods.clear()
        one = BusyPod(cluster, "train-0", launches=11, size=1 << 20)
        cluster.pods.append(one)
        try:
            capacity = {"nvidia.com/gpu": "1"}
            node = {"metadata": {"name": NODE}, "status": {"capacity": capacity}}
            server.keep("/api/v1/nodes", "", node)
            server.keep("/api/v1/namespaces", "", {"metadata": {"name": "ml"}})
            server.put("/api/v1/pods", agent_pod())
            server.forwards.ports[("gpugauge", "gpugauge-x7k2p", USUAL_PORT)] = AGENT_PORT
            cluster.give(one)
            server.agent = cluster.start_agent(f"--listen-port={AGENT_PORT}")
            one.start()
            one.show()
            one.wait_working()
            told = {
                "KUBECONFIG": str(cluster.kubeconfig),
                "API": f"http://127.0.0.1:{server.port}",
                "GPUGAUGE_ATTACH_LIBRARIES": str(one.library),
                **{
                    name: value
                    for name, value in cluster.machine.environment.items()
                    if name.startswith("GPUGAUGE_SIM") or name == "LD_LIBRARY_PATH"
                },
            }
            print(json.dumps(told), flush=True)  # noqa: T201
            sys.stdin.read()
        finally:
            cluster.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
