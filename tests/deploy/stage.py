"""Something to see on every panel: three pods on one GPU, an agent, and what others export."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.k8s.fakes.api_server import FakeApiServer
from tests.k8s.fakes.kubelet import FakeKubelet
from tests.k8s.fakes.waiting import until
from tests.k8s.whole import Cluster, Pod

SETTINGS = (
    "--tick-seconds=0.5",
    "--series-launch-threads=true",
    "--diagnosis-idle-holder-seconds=1",
    "--load-score-enabled=true",
    "--pod-events-enabled=true",
    "--price-per-gpu-hour=Simulated GPU=3.5",
)

BUSY = """
import ctypes, sys, time
from pathlib import Path
from sim.workloads.driver import Driver, byref, c_uint64, c_void_p
orders, launches, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
driver = Driver()
function = driver.function("busy_300us")
stream = driver.stream()
graph, replayed = c_void_p(), c_void_p()
driver.call("cuStreamBeginCapture_v2", stream, 0)
for _ in range(3):
    driver.launch(function, stream)
driver.call("cuStreamEndCapture", stream, byref(graph))
driver.call("cuGraphInstantiateWithFlags", byref(replayed), graph, c_uint64(0))
source = (ctypes.c_char * size)()
memory = driver.allocate(size)
working = bool(launches)
driver.launch(function, stream)
driver.synchronize(stream)
(orders / "working").touch()
while not (orders / "end").exists():
    time.sleep(0.02)
    if not working:
        continue
    for _ in range(launches):
        driver.launch(function, stream)
    driver.call("cuGraphLaunch", replayed, stream)
    driver.to_device(memory, source, size, stream)
    driver.call("cuMemsetD8Async", memory, 0, ctypes.c_size_t(size), stream)
    driver.to_host(source, memory, size, stream)
    driver.attempt("cuStreamQuery", stream)
    driver.synchronize(stream)
    small = driver.allocate(4096)
    driver.call("cuMemFree_v2", small)
    driver.attempt("cuMemAlloc_v2", byref(c_uint64()), ctypes.c_size_t(1 << 50))
"""


class BusyPod(Pod):
    """A pod that works until its end, in all ways that the panels show."""

    program = BUSY

    def wait_working(self) -> None:
        """Wait until it has used its GPU."""
        container = self.container
        assert container is not None

        def seen() -> bool:
            assert "Error" not in container.output, container.output
            return (self.orders / "working").exists()

        until(seen, seconds=60)


@contextmanager
def stage(folder: Path, server: FakeApiServer, kubelet: FakeKubelet) -> Iterator[Cluster]:
    """Yield a node on which two pods share a GPU, a third holds it, and an agent watches."""
    cluster = Cluster(folder, server, kubelet)
    cluster.pods.clear()
    for name, launches in (("a", 11), ("b", 7), ("idle", 0)):
        (folder / name).mkdir()
        cluster.pods.append(BusyPod(cluster, f"{name}-0", launches=launches, size=1 << 20))
    first, _, holder = cluster.pods
    first.cpu_quota_cores = 0.5
    try:
        # One of the two that work was not given what it uses.
        cluster.give(first, holder)
        cluster.start_agent(*SETTINGS)
        for one in cluster.pods:
            one.start()
            one.show()
        for one in cluster.pods:
            one.wait_working()
        yield cluster
    finally:
        cluster.close()


def others(cluster: Cluster) -> str:
    """Return series that no run of a few seconds has, for the same GPU, pods and agent.

    Those of dcgm-exporter and kube-state-metrics, which do not run here, and the load score, which
    an agent knows after a minute.
    """
    assert cluster.agent is not None
    gpu_uuid, pods = cluster.gpu_uuid, [one.name for one in cluster.pods]
    agent = f'instance="127.0.0.1:{cluster.agent.port}"'
    gpu = f'gpu="0",UUID="{gpu_uuid}",device="nvidia0",modelName="x",Hostname="node-a"'
    lines = [
        f"DCGM_FI_DEV_GPU_UTIL{{{gpu}}} 61",
        f"DCGM_FI_DEV_POWER_USAGE{{{gpu}}} 307.5",
        f"DCGM_FI_DEV_GPU_TEMP{{{gpu}}} 53",
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gpu}}} 0.43",
        f"gpugauge_agent_load_score{{{agent}}} 140",
    ]
    for pod in pods:
        keys = f'namespace="ml",pod="{pod}",container="main",uid="x"'
        lines.append(f"kube_pod_container_state_started{{{keys}}} 1.7e9")
        lines.append(f'kube_pod_container_info{{{keys},image="train:v2"}} 1')
    return "\n".join(lines) + "\n"
