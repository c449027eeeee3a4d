"""Programs drawn at random around ones that were measured."""

from __future__ import annotations

import random

from tests.incidents.measured import EAGER, REQUESTS, SMALL
from tests.incidents.program import Program


def training(rng: random.Random, **given: object) -> Program:
    """A training loop that reads its loss every step: a transformer, or an MLP of small layers."""
    gpu = rng.choice((0.0028, 0.024, 0.08, 0.3)) * rng.uniform(0.7, 1.4)
    launches = {True: 168, False: rng.randrange(400, 1500)}[gpu < 0.005]
    issue = launches * 4e-6
    values: dict[str, object] = {
        "launches": launches,
        "threads": rng.uniform(3e4, 6e5),
        "syncs": rng.choice((1, 1, 2, 4)),
        "htod": rng.choice((1, 2, 4)),
        "htod_bytes": rng.uniform(1e5, 4e7) * max(0.2, gpu / 0.08),
        "dtoh": 1,
        "dtoh_bytes": 4,
        "gpu_s": max(gpu, issue * 1.6),
        "host_s": max(gpu, issue) * rng.uniform(0.03, 0.2),
        "jitter": rng.uniform(0.005, 0.03),
    }
    values |= given
    program = Program(**values)  # type: ignore[arg-type]
    step = program.gpu_s + program.host_s
    if "loader_s" not in given:
        program.loader_s = step * rng.uniform(0.3, 0.85)
    if "cpu_s" not in given:
        program.cpu_s = step * rng.uniform(1.5, 6.0)
    return program


def eager(rng: random.Random, **given: object) -> Program:
    """Eager PyTorch whose host is the limit: it reads its loss every so many steps."""
    like = rng.choice((EAGER, SMALL))
    launches = like.launches_per_batch * rng.uniform(0.6, 2.0)
    step = launches / like.launches_per_second * rng.uniform(0.8, 1.3)
    every = rng.choice((20, 50, 100))
    values: dict[str, object] = {
        "launches": launches,
        "threads": like.threads_per_launch * rng.uniform(0.5, 2.0),
        "syncs": 1 / every,
        "htod": 1,
        "htod_bytes": like.batch_bytes * rng.uniform(0.5, 4.0),
        "dtoh": 1 / every,
        "dtoh_bytes": 4 / every,
        "gpu_s": step * rng.uniform(0.15, 0.5),
        "host_s": step - launches * like.issue_s,
        "cpu_s": step,
        "issue_s": like.issue_s,
        "drains": False,
        "jitter": rng.uniform(0.005, 0.04),
    }
    return Program(**(values | given))  # type: ignore[arg-type]


def requests(rng: random.Random, **given: object) -> Program:
    """A few products that are waited for, and a rest of the host, over and over."""
    launches = 1 / REQUESTS.reads_per_launch
    step = launches / REQUESTS.launches_per_second * rng.uniform(0.7, 1.5)
    values: dict[str, object] = {
        "launches": launches,
        "threads": REQUESTS.threads_per_launch * rng.uniform(0.5, 4.0),
        "syncs": 1,
        "htod": 0,
        "htod_bytes": 0,
        "dtoh": 1,
        "dtoh_bytes": REQUESTS.read_bytes,
        "gpu_s": step * REQUESTS.blocked_sync_ratio * rng.uniform(0.8, 1.6),
        "host_s": step * REQUESTS.idle_ratio,
        "cpu_s": step * rng.uniform(0.3, 1.0),
        "jitter": rng.uniform(0.01, 0.03),
    }
    return Program(**(values | given))  # type: ignore[arg-type]


def endless(rng: random.Random, **given: object) -> Program:
    """Matrix products that never synchronize: the queue is full."""
    gpu = rng.uniform(0.02, 0.2)
    return training(
        rng, **({"drains": False, "syncs": 0, "dtoh": 0, "dtoh_bytes": 0, "gpu_s": gpu} | given)
    )


def service(rng: random.Random, load: float, **given: object) -> Program:
    """An inference service that answers requests as they come."""
    gpu = rng.choice((0.003, 0.012, 0.05)) * rng.uniform(0.7, 1.4)
    launches = rng.randrange(60, 500)
    gpu = max(gpu, launches * 4e-6 * 1.5)
    host = gpu * rng.uniform(0.1, 0.5)
    values: dict[str, object] = {
        "launches": launches,
        "threads": rng.uniform(3e4, 3e5),
        "syncs": 1,
        "htod": 1,
        "htod_bytes": rng.uniform(1e4, 2e6),
        "dtoh": 1,
        "dtoh_bytes": rng.uniform(1e3, 2e5),
        "gpu_s": gpu,
        "host_s": host,
        "cpu_s": (gpu + host) * rng.uniform(0.5, 1.5),
        "arrivals": load / (gpu + host),
        "jitter": rng.uniform(0.01, 0.05),
    }
    return Program(**(values | given))  # type: ignore[arg-type]


def graphs(rng: random.Random, **given: object) -> Program:
    """CUDA graph replay, as large language models decode."""
    nodes = rng.randrange(200, 900)
    gpu = rng.uniform(0.006, 0.03)
    values: dict[str, object] = {
        "launches": rng.randrange(3, 12),
        "graphs": 1,
        "graph_nodes": nodes,
        "gpu_s": gpu,
        "host_s": gpu * rng.uniform(0.02, 0.15),
        "htod_bytes": rng.uniform(1e3, 1e5),
        "cpu_s": gpu,
    }
    return training(rng, **(values | given))


def tiny(rng: random.Random, **given: object) -> Program:
    """Eager inference of tiny functions: limited by its launches, never waiting."""
    launches = rng.randrange(2000, 9000)
    each = rng.uniform(4e-6, 3e-5)
    return Program(
        **(
            {
                "launches": launches,
                "threads": rng.uniform(256, 60_000),
                "syncs": 1,
                "htod": 1,
                "htod_bytes": 1e5,
                "dtoh": 1,
                "dtoh_bytes": 4000,
                "gpu_s": launches * 3e-6,
                "host_s": launches * each,
                "cpu_s": launches * (each + 4e-6),
                "drains": False,
                "jitter": 0.02,
            }
            | given
        )  # type: ignore[arg-type]
    )


def batch(rng: random.Random, **given: object) -> Program:
    """A batch job of few, long functions that keeps the device busy."""
    values: dict[str, object] = {
        "launches": rng.randrange(10, 80),
        "threads": rng.uniform(3e5, 4e6),
        "gpu_s": rng.uniform(0.1, 0.8),
        "htod_bytes": rng.uniform(1e5, 1e7),
        "jitter": 0.02,
    }
    return training(rng, **(values | given))
