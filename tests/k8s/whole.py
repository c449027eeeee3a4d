"""`gpugauge run` beside a fake API server and kubelet, and pods that work when they are told."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from sim.oracle import Truth
from tests.k8s.fakes.api_server import PODS, FakeApiServer
from tests.k8s.fakes.containers import Container
from tests.k8s.fakes.kubelet import FakeKubelet, Given
from tests.k8s.fakes.objects import NODE, container_id, pod, pod_uid, status
from tests.k8s.fakes.waiting import until
from tests.k8s.test_containers import Node
from tests.linux.agents import AgentProcess, metrics
from tests.linux.tracing import OwnMachine

REPOSITORY = Path(__file__).resolve().parents[2]
# A virtual environment's interpreter is a chain of links that ends outside it.
PYTHON = sorted({Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]} - {Path("/usr")})

WORKER = """
import ctypes, sys, time
from pathlib import Path
from sim.workloads.driver import Driver
orders, launches, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
driver = Driver()
function = driver.function("busy_300us")
source = (ctypes.c_char * size)()
held = []
turn = 0
while not (orders / "end").exists():
    if not (orders / f"go-{turn}").exists():
        time.sleep(0.002)
        continue
    memory = driver.allocate(size)
    held.append(memory)
    driver.to_device(memory, source, size)
    for _ in range(launches):
        driver.launch(function)
    driver.to_host(source, memory, size)
    began_ns = time.monotonic_ns()
    driver.synchronize()
    (orders / "part").write_text(str(time.monotonic_ns() - began_ns))
    (orders / "part").rename(orders / f"done-{turn}")
    turn += 1
"""


class Pod:
    """A pod of one container, with a copy of the driver's library of its own."""

    program = WORKER
    cpu_quota_cores: float | None = None

    def __init__(self, cluster: Cluster, name: str, launches: int, size: int) -> None:
        self.cluster, self.name, self.launches, self.size = cluster, name, launches, size
        self.library = cluster.folder / f"{name}-driver" / cluster.machine.library.name
        shutil.copytree(cluster.machine.library.parent, self.library.parent)
        self.runs: list[str] = []
        self.container: Container | None = None
        self.turn = 0
        self.waited_ns = 0
        """In its synchronizations, as its program saw them from outside."""

    @property
    def orders(self) -> Path:
        return self.cluster.orders / self.name / self.runs[-1]

    def start(self) -> None:
        """Start a first or a next container; the API server is not told yet."""
        self.runs.append(f"run-{len(self.runs)}")
        self.turn = 0
        self.orders.mkdir(parents=True)
        numbers = [str(self.orders), str(self.launches), str(self.size)]
        cluster = self.cluster
        self.container = cluster.node.run(
            pod_uid(f"ml/{self.name}"),
            self.runs[-1],
            [sys.executable, "-c", self.program, *numbers],
            environment=cluster.machine.environment
            | {
                "GPUGAUGE_SIM_LIBRARY": str(self.library),
                "LD_LIBRARY_PATH": str(self.library.parent),
                "PYTHONPATH": str(REPOSITORY),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            mounts=[REPOSITORY, self.library.parent, Path(sys.prefix), *PYTHON],
            writable=[cluster.machine.state.parent, cluster.orders],
            own_pids=False,
            cpu_quota_cores=self.cpu_quota_cores,
        )

    def show(self, annotations: dict[str, str] | None = None) -> None:
        """Let the API server show the pod as it is now."""
        ids = [container_id(f"{pod_uid(f'ml/{self.name}')}/{run}") for run in self.runs]
        held = [status("main", ids[-1], previous=ids[-2] if len(ids) > 1 else "")]
        owner = ("StatefulSet", f"{self.name}-set")
        shown = pod(self.name, containers=held, owner=owner, annotations=annotations)
        self.cluster.server.put(PODS, shown)

    def work(self) -> None:
        """Let it do one turn, and wait for its end."""
        (self.orders / f"go-{self.turn}").touch()
        assert self.container is not None
        container = self.container

        def done() -> bool:
            assert "Error" not in container.output, container.output
            return (self.orders / f"done-{self.turn}").exists()

        until(done, seconds=60)
        self.waited_ns += int((self.orders / f"done-{self.turn}").read_text())
        self.turn += 1

    def end(self) -> None:
        """Let its program end, and remove the container."""
        (self.orders / "end").touch()
        container = self.container
        assert container is not None
        until(lambda: container.status == "stopped", seconds=60)
        self.cluster.node.containers.remove(container)
        container.delete()


class Cluster:
    """A node with two pods on one simulated GPU, its API server, its kubelet and its agent."""

    def __init__(self, folder: Path, server: FakeApiServer, kubelet: FakeKubelet) -> None:
        self.folder, self.server, self.kubelet = folder, server, kubelet
        machine, self.orders = folder / "machine", folder / "orders"
        machine.mkdir()
        self.orders.mkdir()
        self.machine = OwnMachine(machine)
        self.node = Node(folder / "containers")
        self.kubeconfig = server.kubeconfig(folder)
        self.a = Pod(self, "a", launches=23, size=1 << 20)
        self.b = Pod(self, "b", launches=31, size=3 << 20)
        self.pods = [self.a, self.b]
        self.agent: AgentProcess | None = None

    @property
    def gpu_uuid(self) -> str:
        return self.machine.oracle.devices()[0].uuid

    def start_agent(self, *more: str) -> AgentProcess:
        """Start the agent, or another one, with more flags."""
        libraries = ",".join(str(one.library) for one in self.pods)
        flags = {
            "kubernetes-mode": "on",
            "kubernetes-kubeconfig": self.kubeconfig,
            "kubernetes-kubelet-path": self.kubelet.kubelet_path,
            "node-name": NODE,
            "attach-libraries": libraries,
            "tick-seconds": "0.2",
        }
        words = [f"--{name}={value}" for name, value in flags.items()]
        self.agent = AgentProcess(self.folder, self.machine, *words, *more)
        self.agent.wait_ready()
        return self.agent

    def give(self, *pods: Pod) -> None:
        """Let the kubelet say that these pods were given the GPU, shared by replicas."""
        self.kubelet.given = [
            Given("ml", one.name, "main", {"nvidia.com/gpu": [f"{self.gpu_uuid}::{at}"]})
            for at, one in enumerate(pods)
        ]

    def text(self) -> str:
        """Return /metrics, of a snapshot that was read after this call."""
        assert self.agent is not None
        self.agent.next_snapshot()
        return self.agent.get("/metrics")

    def close(self) -> None:
        """End all of it."""
        if self.agent is not None and self.agent.child.poll() is None:
            self.agent.end()
        self.node.close()
        self.machine.close()


def by_pod(text: str, name: str, **labels: str) -> dict[str, float]:
    """Return the sum of a metric's samples by pod, of those with these labels."""
    found: dict[str, float] = {}
    for key, value in metrics(text, f"gpugauge_{name}").items():
        given = dict(key)
        if all(given.get(label) == wanted for label, wanted in labels.items()):
            found[given["pod"]] = found.get(given["pod"], 0) + value
    return found


def seconds_of(rows: list[Truth], *fields: str) -> float:
    """Return the sum of times of the oracle."""
    return sum(row.values[field] for row in rows for field in fields) / 1e9


def wait_for(cluster: Cluster, question) -> str:
    """Read /metrics until it answers the question, and return it."""
    end = time.monotonic() + 60
    while True:
        text = cluster.text()
        if question(text):
            return text
        assert time.monotonic() < end, text
