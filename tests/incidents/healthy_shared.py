"""Healthy hours of several workloads, and of what disturbs the eye that sees them."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents import programs
from tests.incidents.hour import DT_S, HOUR_S, STATES, hour
from tests.incidents.node import Node
from tests.incidents.program import Process, Program
from tests.incidents.scenario import Scenario


def replica_added(rng: random.Random) -> Scenario:
    """A service at its limit gets a second replica: its load halves at once."""
    node = Node(rng, gpus=2, dt=DT_S)
    program = programs.service(rng, rng.uniform(0.8, 1.3))
    process = node.start("serve-0", program, gpu=0)
    scenario = hour("a replica takes half of the load", node, STATES | {"cpu_starvation"})
    half = replace(program, arrivals=(program.arrivals or 1) / rng.uniform(1.7, 3.0))

    def scale() -> None:
        process.program = half
        node.start("serve-1", half, gpu=1)

    scenario.at(rng.uniform(600, 2500), scale)
    return scenario


def shared_always(rng: random.Random) -> Scenario:
    """Two that always shared a device: slow, but as usual."""
    node = Node(rng, dt=DT_S)
    node.default_contention = rng.choice((0.6, 1.0, 2.0))
    node.start("train-0", programs.training(rng))
    node.start("serve-0", programs.service(rng, rng.uniform(0.3, 0.8)))
    return hour("two that always shared", node)


def quiet_neighbour(rng: random.Random) -> Scenario:
    """Somebody comes to the device, holds a context, and hardly does anything."""
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    scenario = hour("a neighbour that does nothing", node)
    program = programs.service(rng, 0.01)
    scenario.at(rng.uniform(600, 2000), lambda: node.start("note-0", program) and None)
    return scenario


def ranks_checkpoint(rng: random.Random) -> Scenario:
    """Rank 0 writes a checkpoint; the others wait for it inside a collective."""
    node = Node(rng, gpus=4, dt=DT_S)
    program = programs.training(rng, loader_s=0.0)
    ranks = [node.start("train-0", program, gpu=rank) for rank in range(4)]
    scenario = hour("ranks wait for a checkpoint", node)
    when = rng.uniform(200, 600)
    while when < HOUR_S:
        takes = rng.uniform(20, 90)

        def begin() -> None:
            ranks[0].paused = True
            ranks[0].counters.dtoh_bytes += 2e10
            for rank in ranks[1:]:
                rank.hung_since_s = node.clock_s

        def end() -> None:
            ranks[0].paused = False
            for rank in ranks[1:]:
                rank.counters.blocked_sync += node.clock_s - (rank.hung_since_s or node.clock_s)
                rank.hung_since_s = None

        scenario.at(when, begin)
        scenario.at(when + takes, end)
        when += takes + rng.uniform(300, 900)
    return scenario


def uneven_ranks(rng: random.Random) -> Scenario:
    """Stages of a pipeline that wait differently by design, and ranks that hardly differ."""
    node = Node(rng, gpus=4, dt=DT_S)
    program = programs.training(rng, loader_s=0.0)
    by_design = rng.random() < 0.5
    for rank in range(4):
        mine = replace(program)
        if by_design:
            mine.launches *= 1 + 0.4 * rank
            mine.threads *= 1 + 0.3 * rank
            mine.host_s += program.gpu_s * 0.3 * rank
        else:
            mine.gpu_s *= 1 + rng.uniform(-0.05, 0.05)
        node.start(f"train-{rank}", mine, gpu=rank)
    return hour("ranks that differ by design", node)


def host_processes(rng: random.Random) -> Scenario:
    """A workstation: processes of the host, one after another and side by side on two GPUs."""
    node = Node(rng, gpus=2, dt=DT_S)
    node.pod("host")
    node.start("host", programs.training(rng), gpu=0)
    scenario = hour("processes of the host", node)
    made: list[Process] = []
    scenario.at(rng.uniform(300, 900),
                lambda: made.append(node.start("host", programs.graphs(rng), gpu=1)))  # fmt: skip
    scenario.at(rng.uniform(1500, 3000), lambda: node.end(made[0]))
    return scenario


def short_processes(rng: random.Random) -> Scenario:
    """Processes that live for two seconds, beside a steady one."""
    node = Node(rng, dt=1.0)
    node.default_contention = 0.1
    node.start("train-0", programs.training(rng))
    scenario = hour("short-lived processes", node, length_s=600)
    program = programs.service(rng, 0.5)
    when = 10.0
    while when < scenario.length_s:
        made: list[Process] = []
        scenario.at(when, lambda made=made: made.append(node.start("cron-0", program)))
        scenario.at(when + 2, lambda made=made: node.end(made[0]))
        when += rng.uniform(5, 40)
    return scenario


def missing_data(rng: random.Random) -> Scenario:
    """No NVML, no cgroup, no kubelet, no idle time: less is known, nothing is wrong."""
    node = Node(rng, dt=DT_S)
    process = node.start("train-0", programs.training(rng))
    node.nvml, node.kubelet = rng.random() < 0.5, rng.random() < 0.5
    node.pods["train-0"].has_cgroup = rng.random() < 0.5
    process.idle_known = rng.random() < 0.5
    process.complete = rng.random() < 0.5
    return hour("missing data", node)


def disturbed(rng: random.Random) -> Scenario:
    """Gaps, a restart of the agent, a clock that jumps, counters that begin anew."""
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    scenario = hour("gaps, restarts and clock jumps", node)

    def gap() -> None:
        node.clock_s += rng.uniform(70, 900)

    def restart() -> None:
        node.number = 0
        for process in node.processes:
            process.counters = type(process.counters)()

    def reboot() -> None:
        node.clock_s = rng.uniform(10, 300)
        node.began_s = node.clock_s - scenario_elapsed[0]
        for process in node.processes:
            process.started_s = node.clock_s - 1
            process.counters = type(process.counters)()

    scenario_elapsed = [0.0]
    for action in (gap, gap, restart):
        scenario.at(rng.uniform(400, 3000), action)
    when = rng.uniform(3000, 3300)
    scenario_elapsed[0] = when
    scenario.at(when, reboot)
    return scenario


def crowded(rng: random.Random) -> Scenario:
    """Many small programs on one device, which come and go and hardly slow each other."""
    node = Node(rng, dt=DT_S)
    node.default_contention = rng.uniform(0.005, 0.03)
    scenario = hour("a crowded device", node, STATES | {"launch_bound"})
    makes = (programs.eager, programs.training, programs.requests)
    for number in range(rng.randrange(3, 6)):
        node.start(f"work{number}-0", rng.choice(makes)(rng))
    when, index = rng.uniform(60, 300), 0
    while when < HOUR_S - 300:
        takes = rng.uniform(40, 600)
        guest: list[Process] = []
        program = rng.choice(makes)(rng)

        def come(guest: list[Process] = guest, program: Program = program, i: int = index) -> None:
            guest.append(node.start(f"guest{i}-0", program))

        scenario.at(when, come)
        scenario.at(when + takes, lambda guest=guest: node.end(guest[0]))
        when += rng.uniform(60, 500)
        index += 1
    return scenario
