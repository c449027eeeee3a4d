"""Capture a step into a graph and replay it.

Usage: python -m sim.workloads.graphs --replays N --nodes N
"""

from __future__ import annotations

from sim.workloads.driver import Driver, byref, c_uint64, c_void_p, options


def main() -> None:
    """Capture, instantiate, replay."""
    given = options(__doc__, replays=37, nodes=11, launch_us=7)
    driver = Driver(given.device)
    function = driver.function(f"busy_{given.launch_us}us")
    stream, side, event = driver.stream(), driver.stream(), driver.event()
    driver.launch(function, stream)  # a warm-up that is demand
    driver.synchronize(stream)
    graph, executable = c_void_p(), c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    driver.call("cuEventRecord", event, stream)
    driver.call("cuStreamWaitEvent", side, event, 0)
    for index in range(given.nodes):
        driver.launch(function, side if index % 2 else stream)
    driver.call("cuEventRecord", event, side)
    driver.call("cuStreamWaitEvent", stream, event, 0)
    driver.call("cuStreamEndCapture", stream, byref(graph))
    driver.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    for _ in range(given.replays):
        driver.call("cuGraphLaunch", executable, stream)
    driver.synchronize(stream)
    driver.call("cuGraphExecDestroy", executable)
    driver.call("cuGraphDestroy", graph)
    driver.report(graph_nodes=given.nodes * given.replays)


if __name__ == "__main__":
    main()
