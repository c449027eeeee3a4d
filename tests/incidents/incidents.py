"""Incidents of every rule, drawn at random. One scenario of each is kept unseen."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents import programs
from tests.incidents.node import Node
from tests.incidents.program import Process, Program
from tests.incidents.scenario import START_S, Maker, Scenario, Truth

SATURATED = frozenset({"gpu_saturated"})
HANG_S = 120.0
IDLE_S = 1800.0
AFTER_S = 75.0


def _onset(rng: random.Random) -> float:
    return rng.uniform(270, 400)


def _scenario(name: str, node: Node, truth: Truth, after_s: float = AFTER_S) -> Scenario:
    return Scenario(name, node, truth, truth.onset_s + after_s)


def _change(process: Process, **values: object) -> None:
    process.program = replace(process.program, **values)  # type: ignore[arg-type]


# ---- added synchronization ---------------------------------------------------------


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


def _added(name: str, kind: str, make: str = "training", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = getattr(programs, make)(rng, **given)
        process = node.start("train-0", program)
        truth = Truth("added_synchronization", "train-0", _onset(rng), also=SATURATED)
        scenario = _scenario(name, node, truth)
        scenario.at(truth.onset_s, lambda: _change(process, **_logging(program, rng, kind)))
        return scenario

    return maker


def added_by_redeploy(rng: random.Random) -> Scenario:
    node = Node(rng)
    program = programs.training(rng)
    old = node.start("train-0", program)
    deploy = rng.uniform(260, 320)
    truth = Truth("added_synchronization", "train-1", deploy + START_S, also=SATURATED)
    scenario = _scenario("a new pod that logs tensors", node, truth)
    scenario.at(deploy - 8, lambda: node.end(old))

    def start() -> None:
        node.pod("train-1", entitled=(0,))
        warm = rng.uniform(15, 55)
        process = node.start("train-1", replace(program, host_s=program.host_s * 6, allocations=3))
        changed = replace(program, **_logging(program, rng, "tensors"))
        scenario.at(deploy + warm, lambda: setattr(process, "program", changed))

    scenario.at(deploy, start)
    return scenario


# ---- noisy neighbour ---------------------------------------------------------------


def _noisy(name: str, victim: str, neighbour: str = "batch", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        node.default_contention = rng.choice((0.6, 1.0, 2.0, 5.0, 11.0))
        load = rng.uniform(0.25, 0.6)
        program = (
            programs.service(rng, load) if victim == "service" else getattr(programs, victim)(rng)
        )
        first = node.start("victim-0", program)
        who = str(given.get("pod", "batch-0"))
        truth = Truth("noisy_neighbour", "victim-0", _onset(rng), (who,), SATURATED)
        scenario = _scenario(name, node, truth)

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


def neighbour_steps_up(rng: random.Random) -> Scenario:
    node = Node(rng)
    node.default_contention = rng.choice((1.0, 2.0, 5.0))
    node.start("victim-0", programs.training(rng))
    quiet = programs.service(rng, 0.05)
    other = node.start("serve-0", quiet)
    truth = Truth("noisy_neighbour", "victim-0", _onset(rng), ("serve-0",), SATURATED)
    scenario = _scenario("a quiet neighbour becomes loud", node, truth)
    scenario.at(truth.onset_s, lambda: _change(other, arrivals=(quiet.arrivals or 1) * 18))
    return scenario


# ---- CPU starvation ----------------------------------------------------------------


def _starved(name: str, cause: str, words: tuple[str, ...], make: str = "training") -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        full = make == "service"
        program = programs.service(rng, 3.0) if full else getattr(programs, make)(rng)
        process = node.start("train-0", program)
        truth = Truth("cpu_starvation", "train-0", _onset(rng), words)
        scenario = _scenario(name, node, truth)
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
                    _change(process, cpu_s=program.cpu_s * slower)
                else:
                    pod.pressure[cause] = rng.uniform(0.15, 0.7)

            scenario.at(truth.onset_s, begin)
        return scenario

    return maker


# ---- hang, idle holder ---------------------------------------------------------------


def _hang(name: str, pods: int, per_pod: int) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        ranks = pods * per_pod
        node = Node(rng, gpus=ranks, dt=rng.choice((1.0, 15.0)))
        program = programs.training(rng)
        processes = [
            node.start(f"train-{rank // per_pod}", program, gpu=rank) for rank in range(ranks)
        ]
        began = _onset(rng)
        lost = rng.randrange(ranks) if ranks > 1 else None
        victim = 0 if lost != 0 or per_pod > 1 else 1
        words = (f"({processes[lost].pid})",) if lost is not None else ()
        truth = Truth("hang", f"train-{victim // per_pod}", began + HANG_S, words,
                      SATURATED | {"rank_straggler"})  # fmt: skip
        scenario = _scenario(name, node, truth)

        def hang() -> None:
            for rank, process in enumerate(processes):
                if rank == lost:
                    process.paused = True
                else:
                    process.hung_since_s = node.clock_s + rng.uniform(0, 0.1)

        scenario.at(began, hang)
        return scenario

    return maker


def _idle(name: str, pod: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, dt=15.0)
        if pod == "host":
            node.pod("host")
        process = node.start(pod, programs.training(rng), command="jupyter")
        stop = rng.uniform(120, 600)
        truth = Truth("idle_holder", pod, stop + IDLE_S)
        scenario = _scenario(name, node, truth)
        scenario.at(stop, lambda: setattr(process, "paused", True))
        return scenario

    return maker


# ---- the host's side ------------------------------------------------------------------


def _from_start(name: str, rule: str, make: str, pod: str = "serve-0", **given: object) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        start = rng.uniform(5, 40)
        truth = Truth(rule, pod, start + START_S, also=SATURATED)
        scenario = _scenario(name, node, truth)
        scenario.at(start, lambda: node.start(pod, getattr(programs, make)(rng, **given)) and None)
        return scenario

    return maker


def _slow_host(name: str, make: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = getattr(programs, make)(rng)
        process = node.start("train-0", program)
        truth = Truth("host_slow", "train-0", _onset(rng), also=SATURATED | {"launch_bound"})
        scenario = _scenario(name, node, truth)

        def begin() -> None:
            factor = rng.uniform(1.8, 3.5)
            process.slow.issue = factor
            process.slow.host = factor
            _change(process, cpu_s=program.cpu_s * factor)

        scenario.at(truth.onset_s, begin)
        return scenario

    return maker


def _transfer(name: str, to_gpu: bool, grows: bool) -> Maker:
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
            onset = _onset(rng)
            rules = {"added_synchronization"} | SATURATED
            truth = Truth("transfer_bound", "train-0", onset, also=frozenset(rules))
            scenario = _scenario(name, node, truth)
            scenario.at(onset, lambda: _change(process, **heavy))
        else:
            start = rng.uniform(5, 40)
            truth = Truth("transfer_bound", "train-0", start + START_S, also=SATURATED)
            scenario = _scenario(name, node, truth)
            scenario.at(start, lambda: node.start("train-0", replace(program, **heavy)) and None)  # type: ignore[arg-type]
        return scenario

    return maker


def _churn(name: str, later: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        program = programs.training(rng)
        step = max(program.gpu_s + program.host_s, program.loader_s)
        count = max(1.0, step * rng.uniform(0.15, 0.6) / 0.42e-3)
        churning = replace(program, allocations=count)
        if later:
            process = node.start("train-0", program)
            truth = Truth("allocator_churn", "train-0", _onset(rng))
            scenario = _scenario(name, node, truth)
            scenario.at(truth.onset_s, lambda: setattr(process, "program", churning))
        else:
            start = rng.uniform(5, 40)
            truth = Truth("allocator_churn", "train-0", start + START_S)
            scenario = _scenario(name, node, truth)
            scenario.at(start, lambda: node.start("train-0", churning) and None)
        return scenario

    return maker


# ---- memory, errors, entitlement --------------------------------------------------------


def _memory(name: str, pod: str, dies: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        if pod == "host":
            node.pod("host")
        process = node.start(pod, programs.training(rng))
        node.held_memory[0] = rng.randrange(100, 130) * 1_000_000_000
        truth = Truth("out_of_memory", pod, _onset(rng), ("GiB",), SATURATED | {"cpu_starvation"})
        scenario = _scenario(name, node, truth)

        def fail() -> None:
            process.errors[("ALLOCATE", 2)] = process.errors.get(("ALLOCATE", 2), 0) + 1
            process.failures += 1
            process.failed_bytes = rng.randrange(20, 60) * 1_000_000_000

        scenario.at(truth.onset_s, fail)
        if dies:
            scenario.at(truth.onset_s + 1, lambda: node.end(process))
        return scenario

    return maker


def _errors(name: str, slot: str, code: int, each_tick: int, pod: str = "train-0") -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        process = node.start(pod, programs.training(rng))
        truth = Truth("cuda_errors", pod, _onset(rng), (f"({code})",), SATURATED | {"idle_holder"})
        scenario = _scenario(name, node, truth)

        def fail() -> None:
            process.errors[(slot, code)] = process.errors.get((slot, code), 0) + (each_tick or 1)
            if not each_tick:
                process.paused = True

        scenario.at(truth.onset_s, fail)
        for again in range(1, 60 if each_tick else 1):
            scenario.at(truth.onset_s + again, fail)
        return scenario

    return maker


def _held(name: str, pod: str) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng)
        process = node.start(pod, programs.training(rng))
        truth = Truth("held_above_requested", pod, _onset(rng))
        scenario = _scenario(name, node, truth)
        more = rng.randrange(15, 60) * 1_000_000_000
        scenario.at(truth.onset_s, lambda: setattr(process, "held_bytes", 6_800_000_000 + more))
        return scenario

    return maker


def _unrequested(name: str, given: int | None) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, gpus=2)
        node.start("train-0", programs.training(rng), gpu=1)
        node.pod("sneak-0", entitled=() if given is None else (given,))
        start = rng.uniform(5, 40)
        truth = Truth("unrequested_gpu", "sneak-0", start)
        scenario = _scenario(name, node, truth)
        scenario.at(
            start,
            lambda: node.start("sneak-0", programs.service(rng, 0.3), entitle=False) and None,
        )
        return scenario

    return maker


def _straggler(name: str, ranks: int, per_pod: int, from_start: bool) -> Maker:
    def maker(rng: random.Random) -> Scenario:
        node = Node(rng, gpus=ranks)
        # The wait for the slowest is inside a synchronization: the GPU spins in a collective.
        program = programs.training(rng, loader_s=0.0)
        program.host_s = program.gpu_s * 0.05
        processes = [
            node.start(f"train-{rank // per_pod}", program, gpu=rank) for rank in range(ranks)
        ]
        slow = rng.randrange(ranks)
        onset = START_S if from_start else _onset(rng)
        rules = {"cpu_starvation"} | SATURATED
        truth = Truth("rank_straggler", f"train-{slow // per_pod}", onset, also=frozenset(rules))
        scenario = _scenario(name, node, truth)
        extra = (program.gpu_s + program.host_s) * rng.uniform(1.0, 3.0)

        def begin() -> None:
            for rank, process in enumerate(processes):
                if rank == slow:
                    less = program.gpu_s * 0.4
                    _change(
                        process, host_s=program.host_s + extra + program.gpu_s - less, gpu_s=less
                    )
                else:
                    _change(process, gpu_s=program.gpu_s + extra)

        scenario.at(0.0 if from_start else onset, begin)
        return scenario

    return maker


INCIDENTS: tuple[tuple[str, Maker, bool], ...] = (
    # (rule, maker, unseen while tuning)
    ("added_synchronization", _added("a value is read every step", "values"), False),
    ("added_synchronization", _added("tensors are copied for a log", "tensors"), False),
    ("added_synchronization", _added("torch.cuda.synchronize is added", "synchronize"), False),
    ("added_synchronization", _added("a queue is drained every step", "values", "endless"), False),
    ("added_synchronization", added_by_redeploy, False),
    ("added_synchronization", _added("graph replay is drained", "tensors", "graphs"), True),
    ("noisy_neighbour", _noisy("a batch job beside training", "training"), False),
    ("noisy_neighbour", _noisy("a batch job beside a service", "service"), False),
    ("noisy_neighbour", _noisy("a batch job beside a full queue", "endless"), False),
    ("noisy_neighbour", neighbour_steps_up, False),
    ("noisy_neighbour", _noisy("a host process beside training", "training", pod="host"), True),
    ("cpu_starvation", _starved("the CPU limit is lowered", "quota", ("quota",)), False),
    ("cpu_starvation", _starved("storage is slow", "io", ("storage",)), False),
    ("cpu_starvation", _starved("memory is reclaimed", "memory", ("memory",)), False),
    ("cpu_starvation", _starved("others take the CPUs", "cpu", ("CPU",)), False),
    ("cpu_starvation", _starved("its own loader is slower", "own", ("own code",)), False),
    ("cpu_starvation", _starved("a full service is throttled", "quota", ("quota",), "service"),
     True),
    ("hang", _hang("one process hangs", 1, 1), False),
    ("hang", _hang("a rank never came, one pod each", 4, 1), False),
    ("hang", _hang("a rank never came, all in one pod", 1, 4), True),
    ("idle_holder", _idle("training ended, the process did not", "train-0"), False),
    ("idle_holder", _idle("a notebook of the host", "host"), True),
    ("launch_bound", _from_start("tiny functions", "launch_bound", "tiny"), False),
    ("launch_bound", _from_start("tiny functions in a container", "launch_bound", "tiny",
                                 "container-7"), True),
    ("host_slow", _slow_host("the CPU clock falls", "tiny"), False),
    ("host_slow", _slow_host("the CPU clock falls under graph replay", "graphs"), True),
    ("transfer_bound", _transfer("pageable copies from the start", True, False), False),
    ("transfer_bound", _transfer("batches lost their pinned memory", True, True), False),
    ("transfer_bound", _transfer("results copied out, from the start", False, False), True),
    ("allocator_churn", _churn("a cache is emptied every step", True), False),
    ("allocator_churn", _churn("allocations in every step from the start", False), True),
    ("out_of_memory", _memory("an allocation fails, work goes on", "train-0", False), False),
    ("out_of_memory", _memory("an allocation fails, the process ends", "train-0", True), False),
    ("out_of_memory", _memory("a host process fails to allocate", "host", False), True),
    ("cuda_errors", _errors("an illegal address", "SYNCHRONIZE", 700, 0), False),
    ("cuda_errors", _errors("invalid values all the time", "COPY_HTOD", 1, 7), False),
    ("cuda_errors", _errors("an uncorrectable memory error", "LAUNCH", 214, 0), True),
    ("held_above_requested", _held("a pool keeps what was freed", "train-0"), False),
    ("held_above_requested", _held("a container's pool keeps memory", "container-7"), True),
    ("unrequested_gpu", _unrequested("a pod that asked for nothing", None), False),
    ("unrequested_gpu", _unrequested("a pod that asked for another one", 1), True),
    ("rank_straggler", _straggler("a slow rank of four pods", 4, 1, False), False),
    ("rank_straggler", _straggler("a slow rank of eight in a pod", 8, 8, False), False),
    ("rank_straggler", _straggler("a slow rank from the start", 3, 1, True), True),
    ("gpu_saturated", _from_start("a full queue", "gpu_saturated", "endless",
                                  launches=400, gpu_s=0.06, host_s=0.002), False),
    ("gpu_saturated", _from_start("long functions, waited for", "gpu_saturated", "batch",
                                  host_s=0.001, loader_s=0.0), True),
)  # fmt: skip
