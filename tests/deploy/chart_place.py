"""A node for the chart's container: an API server, a kubelet, a simulated GPU, and pods."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sys
from pathlib import Path

from tests.deploy.chart import Rendered
from tests.deploy.chart_container import run_agent
from tests.k8s.fakes.api_server import PODS, FakeApiServer
from tests.k8s.fakes.containers import Container, remove_empty_cgroups
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.objects import container_id, pod, pod_uid, status
from tests.k8s.fakes.waiting import until
from tests.k8s.test_containers import Node
from tests.k8s.whole import PYTHON, REPOSITORY, WORKER
from tests.linux.agents import AgentProcess
from tests.linux.tracing import OwnMachine

USER = 12345
LAUNCHES = 37
NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/namespaces/gpugauge/configmaps"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class ContainerAgent(AgentProcess):
    """The agent in its container, asked over HTTP."""

    def __init__(self, container: Container, port: int) -> None:
        self.container, self.port = container, port

    @property
    def text(self) -> str:
        return self.container.output

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.container.status == "running", self.text
            try:
                return self.status("/readyz") == 200
            except OSError:
                return False

        until(ready, seconds=60)

    def end(self, number: int = signal.SIGTERM) -> float:
        os.kill(self.container.pid, number)
        until(lambda: self.container.status == "stopped", seconds=60)
        return 0.0


class Machine(OwnMachine):
    """Its variables alone, without those of this process."""

    @property
    def environment_of_simulator(self) -> dict[str, str]:
        return {
            key: text for key, text in self.environment.items() if key.startswith("GPUGAUGE_SIM")
        }


class Place:
    """A node: its API server, its kubelet, a simulated GPU, and containers."""

    def __init__(self, folder: Path, server: FakeApiServer, kubelet: FakeKubelet) -> None:
        self.folder, self.server, self.kubelet = folder, server, kubelet
        (folder / "machine").mkdir()
        self.machine = Machine(folder / "machine")
        for one in (self.machine.state.parent, *self.machine.state.parent.glob("state*")):
            one.chmod(0o777)
        self.node = Node(folder / "containers")
        self.agents: list[Container] = []
        self.port = free_port()

    def values(self, **more: object) -> dict[str, object]:
        return {"kubeletPath": str(self.kubelet.kubelet_path), "port": self.port, **more}

    def start(self, rendered: Rendered, **more) -> ContainerAgent:
        made = run_agent(
            self.folder / f"agent-{len(self.agents)}",
            rendered,
            environment=self.machine.environment_of_simulator
            | {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(self.server.port),
            },
            service_account=self.folder / "account",
            host_run=self.folder / "run",
            **more,
        )
        self.agents.append(made)
        return ContainerAgent(made, self.port)

    def start_pod(self, name: str, mode: int = 0o755) -> Path:
        """Start a pod of another user, whose driver library nobody else sees; where it obeys."""
        library = self.folder / f"{name}-driver" / self.machine.library.name
        shutil.copytree(self.machine.library.parent, library.parent)
        for one in [library.parent, *library.parent.iterdir()]:
            shutil.chown(one, USER, USER)
            one.chmod(mode)
        orders = self.folder / f"{name}-orders"
        orders.mkdir(mode=0o777)
        orders.chmod(0o777)
        self.node.run(
            pod_uid(f"ml/{name}"),
            "main",
            [sys.executable, "-c", WORKER, str(orders), str(LAUNCHES), "4096"],
            environment=self.machine.environment_of_simulator
            | {
                "GPUGAUGE_SIM_LIBRARY": str(library),
                "LD_LIBRARY_PATH": str(library.parent),
                "PYTHONPATH": str(REPOSITORY),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            mounts=[REPOSITORY, library.parent, Path(sys.prefix), *PYTHON],
            writable=[self.machine.state.parent, orders],
            own_pids=False,
            user=USER,
        )
        worker = self.node.containers[-1]

        def began() -> bool:
            assert worker.status == "running", worker.output
            return bool(self.machine.oracle.calls()["cuInit"])

        until(began, seconds=60)
        identity = container_id(f"{pod_uid(f'ml/{name}')}/main")
        self.server.put(PODS, pod(name, containers=[status("main", identity)]))
        return orders

    def close(self) -> None:
        for one in self.agents:
            one.delete()
        remove_empty_cgroups(f"/gpugauge-chart-{os.getpid()}")
        self.node.close()
        self.machine.close()


def attached(agent: ContainerAgent, name: str) -> bool:
    """Whether the driver library of a pod has probes."""
    return re.search(rf"tracer: attached to \S*/{name}-driver/", agent.text) is not None


def let_work(orders: Path) -> None:
    (orders / "go-0").touch()
    until((orders / "done-0").exists, seconds=60)
