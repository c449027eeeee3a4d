"""JAX, CuPy and Triton: `python -m tests.gpu.programs.other_loops NAME [--marked]`."""

from __future__ import annotations

import os
import sys
import time

from tests.gpu.programs.marks import section

CALLS, READS = 499, 53


def jax_loop() -> None:
    """A jitted function of one fused launch, results read back now and then."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import numpy

    function = jax.jit(lambda x: x * 2 + 1)
    value = jax.device_put(numpy.ones(4099, dtype=numpy.float32))
    for _ in range(5):
        numpy.asarray(function(value))
    with section() as made:
        for number in range(CALLS):
            result = function(value)
            if number % (CALLS // READS) == 0 and made.counts["DtoH copies"] < READS:
                numpy.asarray(result)
                made.counts["DtoH copies"] += 1
                made.counts["DtoH bytes"] += 4099 * 4
        result.block_until_ready()
        made.counts["kernels"] = CALLS


def cupy_loop() -> None:
    """A raw CUDA function, results read back now and then."""
    import cupy

    function = cupy.RawKernel(
        r'extern "C" __global__ void twice(float* x, int n)'
        r" { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }",
        "twice",
    )
    value = cupy.ones(4099, dtype=cupy.float32)
    function((17,), (256,), (value, 4099))
    cupy.asnumpy(value)
    with section() as made:
        for number in range(CALLS):
            function((17,), (256,), (value, 4099))
            if number % (CALLS // READS) == 0 and made.counts["DtoH copies"] < READS:
                cupy.asnumpy(value)
                made.counts["DtoH copies"] += 1
                made.counts["DtoH bytes"] += 4099 * 4
        cupy.cuda.Device().synchronize()
        made.counts["kernels"] = CALLS


def triton_loop() -> None:
    """A Triton function."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def twice(pointer, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < size
        tl.store(pointer + offsets, tl.load(pointer + offsets, mask=mask) * 2, mask=mask)

    value = torch.ones(4099, device="cuda")
    twice[(17,)](value, 4099, BLOCK=256)
    torch.cuda.synchronize()
    with section() as made:
        for _ in range(CALLS):
            twice[(17,)](value, 4099, BLOCK=256)
        torch.cuda.synchronize()
        made.counts["kernels"] = CALLS
        made.counts["syncs"] = 1


def jax_memory() -> None:
    """Two arrays of 256 MiB, by JAX's own allocator without its preallocation."""
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    import jax
    import jax.numpy as jnp

    with section() as made:
        kept = [jax.device_put(jnp.zeros(64 * 1024 * 1024, dtype=jnp.float32)) for _ in range(2)]
        for each in kept:
            each.block_until_ready()
        made.values["requested_bytes"] = sum(each.nbytes for each in kept)


def plain() -> None:
    """Allocations of the driver API of sizes that are no multiples of a chunk."""
    from sim.workloads.driver import Driver

    driver = Driver()
    time.sleep(0.7)  # time to learn what the context alone holds
    sizes = [8191, 3 * 1024 * 1024 + 7, 101 * 1024 * 1024 + 13]
    with section() as made:
        for size in sizes:
            driver.allocate(size)
        made.values["requested_bytes"] = sum(sizes)


PROGRAMS = {
    "jax": jax_loop,
    "cupy": cupy_loop,
    "triton": triton_loop,
    "jax_memory": jax_memory,
    "plain": plain,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
