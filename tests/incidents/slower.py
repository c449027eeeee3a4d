"""Incidents that make a workload slower than it used to be."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents import programs
from tests.incidents.incident import SATURATED, change, incident, onset
from tests.incidents.measured import HOST_S_PER_READ, SLOWED_BY_BATCH, WAIT_S_PER_NORM
from tests.incidents.node import Node
from tests.incidents.program import Program
from tests.incidents.scenario import START_S, Maker, Scenario, Truth

# ---- added synchronization ---------------------------------------------------------


LEAST_LOST = 0.15
"""Of the work, where the host is slow: with less there is no incident."""


def _logging(program: Program, rng: random.Random, kind: str) -> dict[str, object]:
    """What a program becomes when values are read for a log line."""
    reads = rng.choice((2, 4, 8, 16))
    serial = program.gpu_s * rng.uniform(0.12, 0.5) + reads * 30e-6
    changed: dict[str, object] = {
        "drains": True,
        "syncs": program.syncs + reads,
        "dtoh": program.dtoh + reads,
        "dtoh_bytes": program.dtoh_bytes + reads * 4,
        "host_s": program.host_s + serial,
    }
    if kind == "tensors":
        each = rng.choice((2**16, 2**20, 2**22))
        changed |= {"pageable_dtoh": True, "dtoh_bytes": program.dtoh_bytes + reads * each}
        changed["launches"] = program.launches * rng.uniform(1.0, 1.04)
    if kind == "synchronize":
        changed |= {"dtoh": program.dtoh, "dtoh_bytes": program.dtoh_bytes}
    # The wait that overlapped before is now waited for in the step.
    changed["gpu_s"] = program.gpu_s * rng.uniform(1.0, 1.05)
    return changed


def added(name: str, kind: str, make: str = "training", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = getattr(programs, make)(rng, **given)
        process = node.start("train-0", program)
        truth = Truth("added_synchronization", "train-0", onset(rng), also=SATURATED)
        scenario = incident(name, node, truth)
        scenario.at(truth.onset_s, lambda: change(process, **_logging(program, rng, kind)))
        return scenario

    return maker


def _logging_eager(program: Program, rng: random.Random, kind: str) -> dict[str, object]:
    """What eager PyTorch becomes when it logs tensors, or a norm of each gradient."""
    reads = rng.randrange(3, 9) if kind == "tensors" else rng.randrange(12, 60)
    changed: dict[str, object] = {"syncs": program.syncs + reads, "dtoh": program.dtoh + reads}
    if kind == "tensors":
        changed |= {
            "pageable_dtoh": True,
            "dtoh_bytes": program.dtoh_bytes + reads * rng.choice((2**18, 2**19, 2**20)),
            "host_s": program.host_s + reads * HOST_S_PER_READ * rng.uniform(0.6, 1.5),
        }
        return changed
    launches = program.launches + reads  # one launch each, and a small one
    return changed | {
        "launches": launches,
        "threads": program.threads * (program.launches + reads * 0.01) / launches,
        "dtoh_bytes": program.dtoh_bytes + reads * 4,
        "drains": True,
        "gpu_s": launches * program.issue_s + reads * WAIT_S_PER_NORM * rng.uniform(0.3, 1.2),
    }


def added_to_eager(name: str, kind: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = programs.eager(rng)
        process = node.start("train-0", program)
        also = SATURATED | {"launch_bound"}
        truth = Truth("added_synchronization", "train-0", onset(rng), also=also)
        scenario = incident(name, node, truth)
        scenario.at(truth.onset_s, lambda: change(process, **_logging_eager(program, rng, kind)))
        return scenario

    return maker


def added_by_redeploy(rng: random.Random) -> Scenario:
    node = Node(rng)
    program = programs.training(rng)
    old = node.start("train-0", program)
    deploy = rng.uniform(260, 320)
    truth = Truth("added_synchronization", "train-1", deploy + START_S, also=SATURATED)
    scenario = incident("a new pod that logs tensors", node, truth)
    scenario.at(deploy - 8, lambda: node.end(old))

    def start() -> None:
        node.pod("train-1", entitled=(0,))
        warm = rng.uniform(15, 55)
        process = node.start("train-1", replace(program, host_s=program.host_s * 6, allocations=3))
        changed = replace(program, **_logging(program, rng, "tensors"))
        scenario.at(deploy + warm, lambda: setattr(process, "program", changed))

    scenario.at(deploy, start)
    return scenario


def noisy(name: str, victim: str, neighbour: str = "batch", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        node.default_contention = rng.choice((0.6, 1.0, 2.0, 5.0, 11.0))
        load = rng.uniform(0.25, 0.6)
        program = (
            programs.service(rng, load) if victim == "service" else getattr(programs, victim)(rng)
        )
        first = node.start("victim-0", program)
        who = str(given.get("pod", "batch-0"))
        truth = Truth("noisy_neighbour", "victim-0", onset(rng), (who,), SATURATED)
        scenario = incident(name, node, truth)

        def start() -> None:
            if who == "host":
                node.pod("host")
                other = node.start("host", getattr(programs, neighbour)(rng), command="bench")
            else:
                other = node.start(who, getattr(programs, neighbour)(rng))
            node.contention[(first.number, other.number)] = 1.0

        scenario.at(truth.onset_s, start)
        if who == "host":
            truth.words = ("bench",)
        return scenario

    return maker


def neighbour_among_many(rng: random.Random) -> Scenario:
    """On a device that many share, one that was not there before; a hang was, for a while."""
    node = Node(rng)
    node.default_contention = rng.uniform(0.01, 0.05)
    victim = node.start("victim-0", programs.requests(rng))
    for number in range(rng.randrange(2, 5)):
        make = rng.choice((programs.eager, programs.training, programs.requests))
        node.start(f"other{number}-0", make(rng))
    hung = node.start("stuck-0", programs.training(rng))
    also = SATURATED | {"launch_bound", "noisy_neighbour"}
    truth = Truth("noisy_neighbour", "victim-0", onset(rng), ("batch-0",), also)
    scenario = incident("a batch job on a crowded device", node, truth)
    scenario.at(rng.uniform(70, 90), lambda: setattr(hung, "hung_since_s", node.clock_s))
    scenario.at(rng.uniform(160, 185), lambda: node.end(hung))

    def start() -> None:
        batch = node.start("batch-0", programs.batch(rng, gpu_s=rng.uniform(0.03, 0.3)))
        # Its own waits are known; how much it slows the victim was measured.
        node.contention[(batch.number, victim.number)] = SLOWED_BY_BATCH * rng.uniform(0.8, 1.5) - 1

    scenario.at(truth.onset_s, start)
    return scenario


def neighbour_steps_up(rng: random.Random) -> Scenario:
    node = Node(rng)
    node.default_contention = rng.choice((1.0, 2.0, 5.0))
    node.start("victim-0", programs.training(rng))
    quiet = programs.service(rng, 0.05)
    other = node.start("serve-0", quiet)
    truth = Truth("noisy_neighbour", "victim-0", onset(rng), ("serve-0",), SATURATED)
    scenario = incident("a quiet neighbour becomes loud", node, truth)
    scenario.at(truth.onset_s, lambda: change(other, arrivals=(quiet.arrivals or 1) * 18))
    return scenario


def starved(name: str, cause: str, words: tuple[str, ...], make: str = "training") -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        full = make == "service"
        program = programs.service(rng, 3.0) if full else getattr(programs, make)(rng)
        process = node.start("train-0", program)
        truth = Truth("cpu_starvation", "train-0", onset(rng), words)
        scenario = incident(name, node, truth)
        pod = node.pods["train-0"]
        step = max(program.gpu_s + program.host_s, program.loader_s)
        if cause == "quota":
            if rng.random() < 0.5:
                pod.quota_cores = 64.0
            factor = rng.uniform(2.0, 6.0) * (step / max(program.loader_s, program.host_s, 1e-6))
            wanted = program.cpu_s / step + 0.6
            scenario.at(
                truth.onset_s,
                lambda: setattr(pod, "quota_cores", max(0.1, wanted / min(factor, 9))),
            )
        else:
            slower = step / max(program.loader_s, 1e-6) * rng.uniform(1.4, 4.0)

            def begin() -> None:
                if program.loader_s:
                    process.slow.loader = slower
                else:
                    process.slow.host = rng.uniform(3, 8)
                if cause == "own":
                    change(process, cpu_s=program.cpu_s * slower)
                else:
                    pod.pressure[cause] = rng.uniform(0.15, 0.7)

            scenario.at(truth.onset_s, begin)
        return scenario

    return maker


def slow_host(name: str, make: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = getattr(programs, make)(rng)
        factor = rng.uniform(1.8, 3.5)
        step = max(program.gpu_s + program.host_s, program.loader_s)
        # A host that is hidden behind its GPU or its loader may slow down without any harm.
        program.loader_s = 0.0
        program.host_s = max(program.host_s, LEAST_LOST * step / (factor - 1))
        process = node.start("train-0", program)
        also = SATURATED | {"launch_bound"}
        truth = Truth("host_slow", "train-0", onset(rng), also=also)
        scenario = incident(name, node, truth)

        def begin() -> None:
            process.slow.issue = factor
            process.slow.host = factor
            change(process, cpu_s=program.cpu_s * factor)

        scenario.at(truth.onset_s, begin)
        return scenario

    return maker


def transfer(name: str, to_gpu: bool, grows: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = programs.training(rng, htod=2, gpu_s=rng.uniform(0.01, 0.04))
        wait = (program.gpu_s + program.host_s) * rng.uniform(1.2, 3.0)
        heavy = (
            {"pageable_htod": True, "htod_bytes": wait * 6.7e9}
            if to_gpu
            else {"pageable_dtoh": True, "dtoh_bytes": wait * 2.2e9}
        )
        if grows:
            if to_gpu:
                program.htod_bytes = wait * 6.7e9
            process = node.start("train-0", program)
            rules = {"added_synchronization"} | SATURATED
            truth = Truth("transfer_bound", "train-0", onset(rng), also=frozenset(rules))
            scenario = incident(name, node, truth)
            scenario.at(truth.onset_s, lambda: change(process, **heavy))
        else:
            start = rng.uniform(5, 40)
            truth = Truth("transfer_bound", "train-0", start + START_S, also=SATURATED)
            scenario = incident(name, node, truth)
            scenario.at(start, lambda: node.start("train-0", replace(program, **heavy)) and None)  # type: ignore[arg-type]
        return scenario

    return maker


def churn(name: str, later: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = programs.training(rng)
        step = max(program.gpu_s + program.host_s, program.loader_s)
        count = max(1.0, step * rng.uniform(0.15, 0.6) / 0.42e-3)
        churning = replace(program, allocations=count)
        if later:
            process = node.start("train-0", program)
            truth = Truth("allocator_churn", "train-0", onset(rng))
            scenario = incident(name, node, truth)
            scenario.at(truth.onset_s, lambda: setattr(process, "program", churning))
        else:
            start = rng.uniform(5, 40)
            truth = Truth("allocator_churn", "train-0", start + START_S)
            scenario = incident(name, node, truth)
            scenario.at(start, lambda: node.start("train-0", churning) and None)
        return scenario

    return maker
