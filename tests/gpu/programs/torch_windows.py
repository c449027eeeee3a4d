"""Steps of a program, timed in windows on demand: `... torch_windows NAME`.

For each line read it runs for a second and tells its milliseconds a step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

WINDOW_SECONDS = 1.0


def eager() -> Callable[[], None]:
    """Return a training step of tiny layers: the host is the limit."""
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(12)]
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(32, 64, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def transformer() -> Callable[[], None]:
    """Return a training step of layers that fill the GPU."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(16, 512, 1024, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def graph() -> Callable[[], None]:
    """Return the replay of a captured graph."""
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(32)]).cuda()
    data = torch.randn(64, 512, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(data)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        model(data)
    return captured.replay


def main() -> None:
    """Warm up, then run windows on demand."""
    step = {"eager": eager, "transformer": transformer, "graph": graph}[sys.argv[1]]()
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for _line in sys.stdin:
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < WINDOW_SECONDS:
            for _ in range(10):
                step()
            steps += 10
            torch.cuda.synchronize()
        print((time.perf_counter() - began) * 1000 / steps, flush=True)


if __name__ == "__main__":
    main()
