"""PyTorch programs. Usage: python -m tests.gpu.programs.torch_loops NAME [--marked] [--profile]."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import torch

from tests.gpu.programs.marks import section, tell

DEVICE = "cuda"


def training() -> None:
    """Train an MLP of small layers, with the loss read back every 7th step."""
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(6)]
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(64, 256).pin_memory()

    def step(number: int) -> None:
        batch = data.to(DEVICE, non_blocking=True)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 7 == 0:
            loss.item()

    for number in range(20):
        step(number)
    torch.cuda.synchronize()
    with section() as made:
        for number in range(211):
            step(number)
        torch.cuda.synchronize()
    made.counts["steps"] = 211


def stalled() -> None:
    """Train with a 30 ms stall each step: a loader that is too slow."""
    matrix = torch.randn(2048, 2048, device=DEVICE)
    for _ in range(5):
        (matrix @ matrix).sum().item()
    with section():
        for _ in range(53):
            for _ in range(20):
                out = matrix @ matrix
            out.sum().item()
            time.sleep(0.03)


def dense() -> None:
    """Products back to back, waiting once every 23: the GPU is never left alone for long."""
    matrix = torch.randn(2048, 2048, device=DEVICE)
    for _ in range(5):
        (matrix @ matrix).sum().item()
    with section():
        for _ in range(101):
            for _ in range(23):
                out = matrix @ matrix
            torch.cuda.synchronize()
    del out


def sparse() -> None:
    """Short requests with 5 ms between them."""
    matrix = torch.randn(512, 512, device=DEVICE)
    for _ in range(5):
        (matrix @ matrix).sum().item()
    with section():
        for _ in range(151):
            (matrix @ matrix).sum().item()
            time.sleep(0.005)


def inference() -> None:
    """Answers of 4 MiB to pageable memory: each waits in the copy."""
    weights = torch.randn(1024, 1024, device=DEVICE)
    for _ in range(5):
        (weights @ weights).cpu()
    torch.cuda.synchronize()
    with section() as made:
        for _ in range(101):
            (weights @ weights).cpu()
        torch.cuda.synchronize()
    made.counts["answers"] = 101


def graph() -> None:
    """A captured step, replayed."""
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(7)]).to(DEVICE)
    data = torch.randn(64, 256, device=DEVICE)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(data)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        model(data).relu_()
    captured.replay()
    torch.cuda.synchronize()
    with section() as made:
        for _ in range(211):
            captured.replay()
        torch.cuda.synchronize()
    made.counts["replays"] = 211


def _issue_ns(threads: int) -> float:
    """Return thread time of one turn of the loop where the queue is nearly empty.

    With as many threads as the loop has: they also wait for the interpreter lock.
    """
    turns, rounds = 200, 15
    best = [float("inf")] * rounds
    ready = threading.Barrier(threads)

    def run() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for number in range(rounds):
                torch.cuda.synchronize()
                ready.wait()
                began = time.perf_counter_ns()
                for _ in range(turns):
                    torch.cuda._sleep(100)
                best[number] = min(best[number], (time.perf_counter_ns() - began) / turns)

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    torch.cuda.synchronize()
    return sorted(best)[rounds // 2]


def queue() -> None:
    """Launches of a known length, never waited for: NAME=queue US THREADS."""
    length_us, threads = int(sys.argv[2]), int(sys.argv[3])
    cycles = round(length_us * 1980)  # at the H200's 1,980 MHz
    issue_ns = _issue_ns(threads)
    with section() as made:
        ends = time.monotonic() + 1.5
        launched = [0] * threads

        def run(index: int) -> None:
            with torch.cuda.stream(torch.cuda.Stream()):
                while time.monotonic() < ends:
                    for _ in range(10):
                        torch.cuda._sleep(cycles)
                    launched[index] += 10

        workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        made.values |= {
            "loop_ns": 1_500_000_000,
            "issue_ns": issue_ns,
            "launched": sum(launched),
            "threads": threads,
        }
        torch.cuda.synchronize()


def memory() -> None:
    """Three matrices of 512 MiB and some small ones."""
    torch.cuda.synchronize()  # makes the context, and allocates nothing
    time.sleep(0.7)  # time to learn what it holds alone
    with section() as made:
        kept = [torch.empty(128 * 1024 * 1024, device=DEVICE) for _ in range(3)]
        kept += [torch.empty(1009, device=DEVICE) for _ in range(13)]
        torch.cuda.synchronize()
        made.values["requested_bytes"] = torch.cuda.memory_reserved()
    del kept


def neighbour() -> None:
    """Large products until told to stop."""
    matrix = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    ends = time.monotonic() + 8
    tell("begin")
    while time.monotonic() < ends:
        matrix @ matrix
        torch.cuda.synchronize()
    tell("end", counts={})


PROGRAMS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        training, stalled, dense, sparse, inference, graph, queue, memory, neighbour,
    )
}  # fmt: skip

if __name__ == "__main__":
    torch.cuda.init()
    PROGRAMS[sys.argv[1]]()
