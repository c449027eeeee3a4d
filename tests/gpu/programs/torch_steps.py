"""PyTorch programs whose steps change while they run: {"name": value} a line on stdin.

Usage: python -m tests.gpu.programs.torch_steps KIND. They are what the incidents on a real
GPU are made of; their functions have the names that a person would look for.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

NOW = {"log": 0.0, "norms": 0.0, "evaluate": 0.0, "checkpoint": 0.0, "work": 1.0, "stop": 0.0}
"""What the steps do now."""
MIB = 1 << 20


STOP = threading.Event()


def listen() -> None:
    """Take changes from standard input."""
    for line in sys.stdin:
        NOW.update(json.loads(line))
        if NOW["stop"]:
            STOP.set()


def log_tensor(tensor: torch.Tensor) -> float:
    """Read a whole tensor back, for a line of a log."""
    return float(tensor.detach().cpu()[0, 0, 0])


def log_norm(tensor: torch.Tensor) -> float:
    """Read one value back."""
    return float(tensor.norm().item())


class Training:
    """A transformer, trained from pinned batches; the loss is read at every `read_each`th step."""

    def __init__(self, *, width: int, layers: int, read_each: int, loader_ms: float = 0.0) -> None:
        layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
        self.model = torch.nn.TransformerEncoder(layer, layers).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(8, 64, width).pin_memory()
        self.read_each, self.loader_ms = read_each, loader_ms
        self.steps = 0
        self.ballast = torch.ones(512 * MIB // 4, device="cuda")
        """What a checkpoint holds beside the weights."""

    def step(self) -> None:
        """Train one batch, and do what is asked for beside."""
        if self.loader_ms:
            load_batch(self.loader_ms)
        data = self.batch.to("cuda", non_blocking=True)
        if NOW["evaluate"]:
            self.evaluate(data)
            return
        hidden = self.model(data)
        loss = hidden.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.read_each == 0:
            loss.item()
        if NOW["log"]:
            for _ in range(4):
                log_tensor(hidden)
            loss.item()
        if NOW["norms"]:
            for parameter in self.model.parameters():
                log_norm(parameter.grad)
        if NOW["checkpoint"]:
            NOW["checkpoint"] = 0.0
            self.save()

    def evaluate(self, data: torch.Tensor) -> None:
        """Forward only, and each result is read."""
        self.model.eval()
        with torch.no_grad():
            self.model(data).square().mean().item()
        self.model.train()

    def save(self) -> None:
        """Write a checkpoint."""
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": self.model.state_dict(), "ballast": self.ballast}
            torch.save(state, Path(folder) / "checkpoint.pt")


def load_batch(milliseconds: float) -> None:
    """Work of the host on a batch, on a CPU."""
    end = time.thread_time() + milliseconds / 1e3
    data = np.arange(4096, dtype=np.float64)
    while time.thread_time() < end:
        np.sort(np.sin(data))


class Requests:
    """Products that are waited for, with a rest between."""

    def __init__(self) -> None:
        self.matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step(self) -> None:
        """Answer one request."""
        out = self.matrix
        for _ in range(8):
            out = self.matrix @ self.matrix
        out[0, 0].item()
        time.sleep(0.004)


class Batch:
    """Very large products back to back: the noisy neighbour. It rests until `work` is told."""

    def __init__(self) -> None:
        NOW["work"] = 0.0
        self.matrix = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16)

    def step(self) -> None:
        """Launch some, and wait for them."""
        for _ in range(4):
            _ = self.matrix @ self.matrix
        torch.cuda.synchronize()


class Tiny:
    """Eager inference of tiny layers."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(
            *[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(24)]
        ).cuda()
        self.data = torch.randn(32, 64, device="cuda")

    def step(self) -> None:
        """Many passes, then one result is read."""
        with torch.no_grad():
            for _ in range(50):
                out = self.model(self.data)
        out[0, 0].item()


class Pageable:
    """Batches from pageable memory, each with little work on the GPU."""

    def __init__(self) -> None:
        self.batch = torch.randn(16 * MIB)
        self.weights = torch.randn(1024, 1024, device="cuda")

    def step(self) -> None:
        """Copy 64 MiB and work on it."""
        data = self.batch.to("cuda")
        (data.view(-1, 1024)[:1024] @ self.weights).sum().item()


class Hang:
    """A stream that waits for a value in memory that nobody writes."""

    def __init__(self) -> None:
        self.matrix = torch.randn(1024, 1024, device="cuda")
        self.flag = torch.zeros(1, dtype=torch.int32).pin_memory()
        self.driver = ctypes.CDLL("libcuda.so.1")

    def step(self) -> None:
        """Work for some seconds, then wait for the stream."""
        stream = torch.cuda.Stream()
        until = time.monotonic() + 5
        with torch.cuda.stream(stream):
            while time.monotonic() < until:
                (self.matrix @ self.matrix).sum().item()
            threading.Thread(target=self.release, daemon=True).start()
            code = self.driver.cuStreamWaitValue32_v2(
                ctypes.c_void_p(stream.cuda_stream),
                ctypes.c_uint64(self.flag.data_ptr()),
                ctypes.c_uint32(1),
                ctypes.c_uint32(0),
            )
            if code:
                raise SystemExit(f"cuStreamWaitValue32_v2 answered {code}")
            tell("hangs")
            wait_for_all(stream)

    def release(self) -> None:
        """Write the value when the run says so, so that the stream can end."""
        STOP.wait()
        self.flag[0] = 1


def wait_for_all(stream: torch.cuda.Stream) -> None:
    """Wait for a stream."""
    stream.synchronize()


class Idle:
    """A notebook that was left: 4 GiB, and no work after the first seconds."""

    def __init__(self) -> None:
        self.held = torch.ones(1024 * MIB, device="cuda")

    def step(self) -> None:
        """Rest."""
        time.sleep(0.2)


KINDS = {
    "logged": lambda: Training(width=256, layers=4, read_each=50),
    "normed": lambda: Training(width=128, layers=2, read_each=20),
    "starved": lambda: Training(width=128, layers=2, read_each=1, loader_ms=12.0),
    "healthy": lambda: Training(width=256, layers=4, read_each=1, loader_ms=8.0),
    "victim": Requests,
    "batch": Batch,
    "tiny": Tiny,
    "pageable": Pageable,
    "hang": Hang,
    "idle": Idle,
}


def tell(word: str) -> None:
    """Tell the run how far it is."""
    print(json.dumps({"word": word, "unix_ns": time.time_ns(), "pid": os.getpid()}), flush=True)


def main() -> None:
    """Run steps until told to stop."""
    torch.set_num_threads(1)
    threading.Thread(target=listen, daemon=True).start()
    program = KINDS[sys.argv[1]]()
    torch.cuda.synchronize()
    tell("ready")
    while not NOW["stop"]:
        if NOW["work"]:
            program.step()
        else:
            time.sleep(0.02)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
