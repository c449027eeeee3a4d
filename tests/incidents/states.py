"""Incidents that are seen without comparing: hangs, failures, and what is so from the start."""

from __future__ import annotations

import random

from tests.incidents import programs
from tests.incidents.incident import SATURATED, change, incident, onset
from tests.incidents.node import Node
from tests.incidents.scenario import START_S, Maker, Scenario, Truth

HANG_S = 120.0
IDLE_S = 1800.0


# ---- hang, idle holder ---------------------------------------------------------------


def hang(name: str, pods: int, per_pod: int) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        ranks = pods * per_pod
        node = Node(rng, gpus=ranks, dt=rng.choice((1.0, 15.0)))
        program = programs.training(rng)
        processes = [
            node.start(f"train-{rank // per_pod}", program, gpu=rank) for rank in range(ranks)
        ]
        began = onset(rng)
        lost = rng.randrange(ranks) if ranks > 1 else None
        victim = 0 if lost != 0 or per_pod > 1 else 1
        words = (f"({processes[lost].pid})",) if lost is not None else ()
        truth = Truth("hang", f"train-{victim // per_pod}", began + HANG_S, words,
                      SATURATED | {"rank_straggler"})  # fmt: skip
        scenario = incident(name, node, truth)

        def hang() -> None:
            for rank, process in enumerate(processes):
                if rank == lost:
                    process.paused = True
                else:
                    process.hung_since_s = node.clock_s + rng.uniform(0, 0.1)

        scenario.at(began, hang)
        return scenario

    return maker


def idle(name: str, pod: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, dt=15.0)
        if pod == "host":
            node.pod("host")
        process = node.start(pod, programs.training(rng), command="jupyter")
        stop = rng.uniform(120, 600)
        truth = Truth("idle_holder", pod, stop + IDLE_S)
        scenario = incident(name, node, truth)
        scenario.at(stop, lambda: setattr(process, "paused", True))
        return scenario

    return maker


def from_start(name: str, rule: str, make: str, pod: str = "serve-0", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        start = rng.uniform(5, 40)
        truth = Truth(rule, pod, start + START_S, also=SATURATED)
        scenario = incident(name, node, truth)
        scenario.at(start, lambda: node.start(pod, getattr(programs, make)(rng, **given)) and None)
        return scenario

    return maker


def memory(name: str, pod: str, dies: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        if pod == "host":
            node.pod("host")
        process = node.start(pod, programs.training(rng))
        node.held_memory[0] = rng.randrange(100, 130) * 1_000_000_000
        truth = Truth("out_of_memory", pod, onset(rng), ("GiB",), SATURATED | {"cpu_starvation"})
        scenario = incident(name, node, truth)

        def fail() -> None:
            process.errors[("ALLOCATE", 2)] = process.errors.get(("ALLOCATE", 2), 0) + 1
            process.failures += 1
            process.failed_bytes = rng.randrange(20, 60) * 1_000_000_000

        scenario.at(truth.onset_s, fail)
        if dies:
            scenario.at(truth.onset_s + 1, lambda: node.end(process))
        return scenario

    return maker


def errors(name: str, slot: str, code: int, each_tick: int, pod: str = "train-0") -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        process = node.start(pod, programs.training(rng))
        truth = Truth("cuda_errors", pod, onset(rng), (f"({code})",), SATURATED | {"idle_holder"})
        scenario = incident(name, node, truth)

        def fail() -> None:
            process.errors[(slot, code)] = process.errors.get((slot, code), 0) + (each_tick or 1)
            if not each_tick:
                process.paused = True

        scenario.at(truth.onset_s, fail)
        for again in range(1, 60 if each_tick else 1):
            scenario.at(truth.onset_s + again, fail)
        return scenario

    return maker


def held(name: str, pod: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        process = node.start(pod, programs.training(rng))
        truth = Truth("held_above_requested", pod, onset(rng))
        scenario = incident(name, node, truth)
        more = rng.randrange(15, 60) * 1_000_000_000
        scenario.at(truth.onset_s, lambda: setattr(process, "held_bytes", 6_800_000_000 + more))
        return scenario

    return maker


def unrequested(name: str, given: int | None) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, gpus=2)
        node.start("train-0", programs.training(rng), gpu=1)
        node.pod("sneak-0", entitled=() if given is None else (given,))
        start = rng.uniform(5, 40)
        truth = Truth("unrequested_gpu", "sneak-0", start)
        scenario = incident(name, node, truth)
        scenario.at(
            start,
            lambda: node.start("sneak-0", programs.service(rng, 0.3), entitle=False) and None,
        )
        return scenario

    return maker


def straggler(name: str, ranks: int, per_pod: int, from_start: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, gpus=ranks)
        # The wait for the slowest is inside a synchronization: the GPU spins in a collective.
        program = programs.training(rng, loader_s=0.0)
        program.host_s = program.gpu_s * 0.05
        processes = [
            node.start(f"train-{rank // per_pod}", program, gpu=rank) for rank in range(ranks)
        ]
        slow = rng.randrange(ranks)
        begins = START_S if from_start else onset(rng)
        rules = {"cpu_starvation"} | SATURATED
        truth = Truth("rank_straggler", f"train-{slow // per_pod}", begins, also=frozenset(rules))
        scenario = incident(name, node, truth)
        extra = (program.gpu_s + program.host_s) * rng.uniform(1.0, 3.0)

        def begin() -> None:
            for rank, process in enumerate(processes):
                if rank == slow:
                    less = program.gpu_s * 0.4
                    change(
                        process, host_s=program.host_s + extra + program.gpu_s - less, gpu_s=less
                    )
                else:
                    change(process, gpu_s=program.gpu_s + extra)

        scenario.at(0.0 if from_start else begins, begin)
        return scenario

    return maker
