"""Healthy hours of a workload for itself."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents import programs
from tests.incidents.hour import DT_S, HOUR_S, STATES, hour, set_values
from tests.incidents.node import Node
from tests.incidents.program import Process, Program
from tests.incidents.scenario import Scenario


def steady_training(rng: random.Random) -> Scenario:
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    return hour("steady training", node)


def checkpoints(rng: random.Random) -> Scenario:
    """Every few minutes the weights are copied out and written; nothing is launched."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    process = node.start("train-0", programs.training(rng))
    pod = node.pods["train-0"]
    scenario = hour("checkpoints", node, length_s=HOUR_S if node.dt > 1 else 900)
    every, size = rng.uniform(200, 900), rng.uniform(1e9, 6e10)
    takes = rng.uniform(4, 70)

    def begin() -> None:
        process.paused = True
        process.counters.dtoh += 400
        process.counters.dtoh_bytes += size
        process.counters.blocked_copy += min(takes * 0.8, size / 2.2e9)
        pod.pressure["io"] = rng.uniform(0.2, 0.9)

    def end() -> None:
        process.paused = False
        pod.pressure["io"] = 0.0

    when = rng.uniform(60, 600)
    while when < scenario.length_s:
        scenario.at(when, begin)
        scenario.at(when + takes, end)
        when += every + takes
    return scenario


def evaluation(rng: random.Random) -> Scenario:
    """Between epochs it only evaluates: a third of the launches a batch, results read back."""
    node = Node(rng, dt=DT_S)
    program = programs.training(rng)
    process = node.start("train-0", program)
    scenario = hour("training and evaluation in turn", node)
    evaluate = replace(
        program,
        launches=program.launches * rng.uniform(0.28, 0.45),
        gpu_s=program.gpu_s * rng.uniform(0.25, 0.4),
        threads=program.threads * rng.uniform(0.7, 1.3),
        syncs=program.syncs + rng.choice((0, 1, 3)),
        dtoh=program.dtoh + rng.choice((1, 2, 4)),
        dtoh_bytes=rng.uniform(1e3, 1e6),
        cpu_s=program.cpu_s * rng.uniform(0.4, 1.1),
    )
    when = rng.uniform(150, 900)
    while when < HOUR_S:
        takes = rng.uniform(30, 300)
        scenario.at(when, lambda: setattr(process, "program", evaluate))
        scenario.at(when + takes, lambda: setattr(process, "program", program))
        when += takes + rng.uniform(200, 1200)
    return scenario


def starts_and_stops(rng: random.Random) -> Scenario:
    """Jobs that begin, compile and warm up, work, and end."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    scenario = hour("jobs start and end", node, length_s=HOUR_S if node.dt > 1 else 900)
    program = programs.training(rng)
    when, index = rng.uniform(0, 60), 0
    while when < scenario.length_s - 100:
        takes = rng.uniform(100, 900)
        _job(rng, scenario, program, f"job-{index}", when, takes)
        when += takes + rng.uniform(5, 120)
        index += 1
    return scenario


def _job(
    rng: random.Random, scenario: Scenario, program: Program, pod: str, when: float, takes: float
) -> None:
    node = scenario.node
    warm = rng.uniform(5, 55)
    cold = replace(
        program, host_s=program.host_s + program.gpu_s * rng.uniform(1, 8), loader_s=0.0,
        allocations=rng.uniform(0, 6), launches=program.launches * rng.uniform(0.5, 1.5),
        jitter=0.3,
    )  # fmt: skip
    started: list[Process] = []
    scenario.at(when, lambda: started.append(node.start(pod, cold)))
    scenario.at(when + warm, lambda: setattr(started[0], "program", program))
    scenario.at(when + takes, lambda: node.end(started[0]))


def bursts(rng: random.Random) -> Scenario:
    """A service that is asked in bursts, with silence between."""
    node = Node(rng, dt=DT_S)
    program = programs.service(rng, rng.uniform(0.1, 0.9))
    process = node.start("serve-0", program)
    scenario = hour("a service in bursts", node)
    when = 0.0
    while when < HOUR_S:
        level = rng.choice((0.0, 0.05, 0.3, 1.0, 1.0))
        scenario.at(
            when, lambda level=level: set_values(process, arrivals=program.arrivals * level)
        )
        when += rng.uniform(10, 180)
    return scenario


def autoscaled(rng: random.Random) -> Scenario:
    """Load that follows the day, batches that grow with it, replicas that come and go."""
    node = Node(rng, gpus=2, dt=DT_S)
    program = programs.service(rng, rng.uniform(0.4, 0.95))
    program.gpu_s *= 3  # also half a batch is more than its launches cost to issue
    program.arrivals = (program.arrivals or 1) / 3
    process = node.start("serve-0", program, gpu=0)
    scenario = hour("an autoscaled service", node)
    batches = rng.random() < 0.5
    when = rng.uniform(100, 400)
    while when < HOUR_S:
        level = rng.uniform(0.3, 1.0)
        size = rng.uniform(0.5, 2.0) if batches else 1.0
        scenario.at(
            when,
            lambda level=level, size=size: set_values(
                process, arrivals=program.arrivals * level / size, threads=program.threads * size,
                gpu_s=program.gpu_s * size, htod_bytes=program.htod_bytes * size,
                dtoh_bytes=program.dtoh_bytes * size,
            ),
        )  # fmt: skip
        when += rng.uniform(60, 600)
    other: list[Process] = []
    scenario.at(rng.uniform(900, 2000), lambda: other.append(node.start("serve-1", program, gpu=1)))
    scenario.at(rng.uniform(2100, 3400), lambda: node.end(other[0]))
    return scenario


def moved_wait(rng: random.Random) -> Scenario:
    """The same wait in another call: a queue that was full is now drained, at no cost."""
    node = Node(rng, dt=DT_S)
    program = programs.endless(
        rng, host_s=0.001, launches=400, syncs=0, gpu_s=rng.uniform(0.08, 0.2)
    )
    process = node.start("train-0", program)
    scenario = hour("a wait that moves from one call to another", node)
    drained = replace(program, drains=True, syncs=1, host_s=0.0004)
    scenario.at(rng.uniform(900, 2500), lambda: setattr(process, "program", drained))
    return scenario


def phases(rng: random.Random) -> Scenario:
    """Phases of different work in turn, as in reinforcement learning."""
    node = Node(rng, dt=DT_S)
    kinds = [programs.training(rng), programs.graphs(rng), programs.service(rng, 0.5)]
    process = node.start("train-0", kinds[0])
    scenario = hour("phases of different work", node)
    when = 0.0
    while when < HOUR_S:
        chosen = rng.choice(kinds)
        scenario.at(when, lambda chosen=chosen: setattr(process, "program", chosen))
        when += rng.uniform(20, 240)
    return scenario


def hiccups(rng: random.Random) -> Scenario:
    """Short stalls: garbage collection, a loader that begins its epoch, a slow read."""
    node = Node(rng, dt=1.0)
    process = node.start("train-0", programs.training(rng))
    scenario = hour("short stalls", node, length_s=900)
    when = rng.uniform(100, 250)
    while when < scenario.length_s:
        scenario.at(when, lambda: setattr(process, "paused", True))
        scenario.at(when + rng.uniform(1, 9), lambda: setattr(process, "paused", False))
        when += rng.uniform(60, 300)
    return scenario


def allowed_throttling(rng: random.Random) -> Scenario:
    """A pod that was always throttled a little: as usual."""
    node = Node(rng, dt=DT_S)
    program = programs.training(rng)
    step = max(program.gpu_s + program.host_s, program.loader_s)
    node.pod("train-0", entitled=(0,), quota_cores=(program.cpu_s / step) * rng.uniform(0.8, 1.1))
    node.start("train-0", program)
    node.settle(600.0)
    return hour("throttled as always", node)


def loaders_restart(rng: random.Random) -> Scenario:
    """At each epoch the loaders begin anew: some seconds of nothing, busy CPUs and disks."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    process = node.start("train-0", programs.training(rng))
    pod = node.pods["train-0"]
    scenario = hour("loaders restart at each epoch", node, length_s=HOUR_S if node.dt > 1 else 900)
    when = rng.uniform(150, 400)

    def begin() -> None:
        process.paused = True
        pod.pressure["io"] = pod.pressure["cpu"] = rng.uniform(0.1, 0.5)

    def end() -> None:
        process.paused = False
        pod.pressure["io"] = pod.pressure["cpu"] = 0.0

    while when < scenario.length_s:
        takes = rng.uniform(3, 12)
        scenario.at(when, begin)
        scenario.at(when + takes, end)
        when += rng.uniform(200, 800)
    return scenario


def eager_drifts(rng: random.Random) -> Scenario:
    """Eager PyTorch, whose host is faster and slower from minute to minute, and evaluates."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    program = programs.eager(rng)
    process = node.start("train-0", program)
    length_s = HOUR_S if node.dt > 1 else 900
    scenario = hour("eager training that drifts", node, STATES | {"launch_bound"}, length_s)
    evaluate = replace(
        program,
        launches=program.launches * rng.uniform(0.28, 0.4),
        threads=program.threads * rng.uniform(0.7, 1.0),
        host_s=program.host_s * rng.uniform(0.3, 0.4),
        syncs=1,
        dtoh=1,
        dtoh_bytes=4,
    )
    when = 0.0
    while when < length_s:
        kind = evaluate if rng.random() < 0.15 else program
        factor = rng.uniform(0.88, 1.18)  # 23,000 to 29,000 launches a second were seen
        changed = replace(kind, host_s=kind.host_s * factor)
        scenario.at(when, lambda changed=changed: setattr(process, "program", changed))
        when += rng.uniform(20, 120)
    return scenario
