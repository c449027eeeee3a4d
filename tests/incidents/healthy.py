"""Healthy hours of many kinds: nothing here is an incident, whatever it looks like."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents import programs
from tests.incidents.node import Node
from tests.incidents.program import Process, Program
from tests.incidents.scenario import Maker, Scenario, Truth

DT_S = 15.0
HOUR_S = 3600.0
STATES = frozenset({"gpu_saturated"})


def _hour(
    name: str, node: Node, also: frozenset[str] = STATES, length_s: float = HOUR_S
) -> Scenario:
    return Scenario(name, node, Truth("", "", 0.0, also=also), length_s)


def _set(process: Process, **values: object) -> None:
    process.program = replace(process.program, **values)  # type: ignore[arg-type]


def steady_training(rng: random.Random) -> Scenario:
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    return _hour("steady training", node)


def checkpoints(rng: random.Random) -> Scenario:
    """Every few minutes the weights are copied out and written; nothing is launched."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    process = node.start("train-0", programs.training(rng))
    pod = node.pods["train-0"]
    scenario = _hour("checkpoints", node, length_s=HOUR_S if node.dt > 1 else 900)
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
    scenario = _hour("training and evaluation in turn", node)
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
    scenario = _hour("jobs start and end", node, length_s=HOUR_S if node.dt > 1 else 900)
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
    scenario = _hour("a service in bursts", node)
    when = 0.0
    while when < HOUR_S:
        level = rng.choice((0.0, 0.05, 0.3, 1.0, 1.0))
        scenario.at(when, lambda level=level: _set(process, arrivals=program.arrivals * level))
        when += rng.uniform(10, 180)
    return scenario


def autoscaled(rng: random.Random) -> Scenario:
    """Load that follows the day, batches that grow with it, replicas that come and go."""
    node = Node(rng, gpus=2, dt=DT_S)
    program = programs.service(rng, rng.uniform(0.4, 0.95))
    program.gpu_s *= 3  # also half a batch is more than its launches cost to issue
    program.arrivals = (program.arrivals or 1) / 3
    process = node.start("serve-0", program, gpu=0)
    scenario = _hour("an autoscaled service", node)
    batches = rng.random() < 0.5
    when = rng.uniform(100, 400)
    while when < HOUR_S:
        level = rng.uniform(0.3, 1.0)
        size = rng.uniform(0.5, 2.0) if batches else 1.0
        scenario.at(
            when,
            lambda level=level, size=size: _set(
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


def replica_added(rng: random.Random) -> Scenario:
    """A service at its limit gets a second replica: its load halves at once."""
    node = Node(rng, gpus=2, dt=DT_S)
    program = programs.service(rng, rng.uniform(0.8, 1.3))
    process = node.start("serve-0", program, gpu=0)
    scenario = _hour("a replica takes half of the load", node, STATES | {"cpu_starvation"})
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
    return _hour("two that always shared", node)


def quiet_neighbour(rng: random.Random) -> Scenario:
    """Somebody comes to the device, holds a context, and hardly does anything."""
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    scenario = _hour("a neighbour that does nothing", node)
    program = programs.service(rng, 0.01)
    scenario.at(rng.uniform(600, 2000), lambda: node.start("note-0", program) and None)
    return scenario


def moved_wait(rng: random.Random) -> Scenario:
    """The same wait in another call: a queue that was full is now drained, at no cost."""
    node = Node(rng, dt=DT_S)
    program = programs.endless(
        rng, host_s=0.001, launches=400, syncs=0, gpu_s=rng.uniform(0.08, 0.2)
    )
    process = node.start("train-0", program)
    scenario = _hour("a wait that moves from one call to another", node)
    drained = replace(program, drains=True, syncs=1, host_s=0.0004)
    scenario.at(rng.uniform(900, 2500), lambda: setattr(process, "program", drained))
    return scenario


def phases(rng: random.Random) -> Scenario:
    """Phases of different work in turn, as in reinforcement learning."""
    node = Node(rng, dt=DT_S)
    kinds = [programs.training(rng), programs.graphs(rng), programs.service(rng, 0.5)]
    process = node.start("train-0", kinds[0])
    scenario = _hour("phases of different work", node)
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
    scenario = _hour("short stalls", node, length_s=900)
    when = rng.uniform(100, 250)
    while when < scenario.length_s:
        scenario.at(when, lambda: setattr(process, "paused", True))
        scenario.at(when + rng.uniform(1, 9), lambda: setattr(process, "paused", False))
        when += rng.uniform(60, 300)
    return scenario


def short_processes(rng: random.Random) -> Scenario:
    """Processes that live for two seconds, beside a steady one."""
    node = Node(rng, dt=1.0)
    node.default_contention = 0.1
    node.start("train-0", programs.training(rng))
    scenario = _hour("short-lived processes", node, length_s=600)
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
    return _hour("missing data", node)


def disturbed(rng: random.Random) -> Scenario:
    """Gaps, a restart of the agent, a clock that jumps, counters that begin anew."""
    node = Node(rng, dt=DT_S)
    node.start("train-0", programs.training(rng))
    scenario = _hour("gaps, restarts and clock jumps", node)

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


def ranks_checkpoint(rng: random.Random) -> Scenario:
    """Rank 0 writes a checkpoint; the others wait for it inside a collective."""
    node = Node(rng, gpus=4, dt=DT_S)
    program = programs.training(rng, loader_s=0.0)
    ranks = [node.start("train-0", program, gpu=rank) for rank in range(4)]
    scenario = _hour("ranks wait for a checkpoint", node)
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
    return _hour("ranks that differ by design", node)


def host_processes(rng: random.Random) -> Scenario:
    """A workstation: processes of the host, one after another and side by side on two GPUs."""
    node = Node(rng, gpus=2, dt=DT_S)
    node.pod("host")
    node.start("host", programs.training(rng), gpu=0)
    scenario = _hour("processes of the host", node)
    made: list[Process] = []
    scenario.at(rng.uniform(300, 900),
                lambda: made.append(node.start("host", programs.graphs(rng), gpu=1)))  # fmt: skip
    scenario.at(rng.uniform(1500, 3000), lambda: node.end(made[0]))
    return scenario


def allowed_throttling(rng: random.Random) -> Scenario:
    """A pod that was always throttled a little: as usual."""
    node = Node(rng, dt=DT_S)
    program = programs.training(rng)
    step = max(program.gpu_s + program.host_s, program.loader_s)
    node.pod("train-0", entitled=(0,), quota_cores=(program.cpu_s / step) * rng.uniform(0.8, 1.1))
    node.start("train-0", program)
    return _hour("throttled as always", node)


def loaders_restart(rng: random.Random) -> Scenario:
    """At each epoch the loaders begin anew: some seconds of nothing, busy CPUs and disks."""
    node = Node(rng, dt=rng.choice((1.0, DT_S)))
    process = node.start("train-0", programs.training(rng))
    pod = node.pods["train-0"]
    scenario = _hour("loaders restart at each epoch", node, length_s=HOUR_S if node.dt > 1 else 900)
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


HEALTHY: tuple[tuple[str, Maker, bool], ...] = tuple(
    ("", maker, unseen)
    for maker, unseen in (
        (steady_training, False),
        (checkpoints, False),
        (evaluation, False),
        (starts_and_stops, False),
        (bursts, False),
        (autoscaled, False),
        (replica_added, True),
        (shared_always, False),
        (quiet_neighbour, False),
        (moved_wait, False),
        (phases, False),
        (hiccups, False),
        (short_processes, False),
        (missing_data, False),
        (disturbed, False),
        (ranks_checkpoint, False),
        (uneven_ranks, True),
        (host_processes, False),
        (allowed_throttling, True),
        (loaders_restart, False),
    )
)
