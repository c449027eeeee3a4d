"""Figures of real programs, computed from the recordings beside this file.

`test_measured.py` computes each again from its recording. PyTorch on an H200; what each
container does is told in recordings/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """A program over some seconds of a recording: differences of its totals."""

    recording: str
    container: int
    from_s: float
    until_s: float
    launches_per_second: float
    threads_per_launch: float
    launches_per_batch: float
    """By copy to the GPU."""
    batch_bytes: float
    reads_per_launch: float
    """Copies to the host."""
    read_bytes: float
    """Each."""
    issue_s: float
    blocked_sync_ratio: float
    blocked_copy_ratio: float
    idle_ratio: float


EAGER = Measured("added", 5, 115, 158, 25_696, 48_602, 251, 524_300, 8e-5, 4,
                 5.1e-6, 0.0016, 0.0037, 0.0)  # fmt: skip
"""A transformer whose host is the limit: it reads its loss every 50 steps."""
EAGER_LOGGED = Measured("added", 5, 185, 215, 18_370, 48_602, 251, 524_300, 0.020, 417_750,
                        6.1e-6, 0.0030, 0.0572, 0.025)  # fmt: skip
"""The same with four tensors of 512 KiB and a loss read every step."""
SMALL = Measured("added", 2, 115, 158, 22_658, 27_483, 125, 262_100, 4e-4, 4,
                 5.5e-6, 0.0068, 0.0040, 0.001)  # fmt: skip
"""A smaller one."""
SMALL_NORMED = Measured("added", 2, 185, 215, 6_945, 23_088, 149, 262_200, 0.1614, 4,
                        7.0e-6, 0.5806, 0.0042, 0.049)  # fmt: skip
"""The same with the norm of each of its 24 gradients read every step."""
REQUESTS = Measured("added", 1, 115, 158, 1_297, 50_688, 0, 0, 0.125, 2,
                    5.5e-6, 0.2739, 0.0024, 0.68)  # fmt: skip
"""Eight products, a read of the result, a rest; five others on the device."""
REQUESTS_BESIDE = Measured("neighbour", 4, 160, 195, 923, 50_688, 0, 0, 0.125, 2,
                           6.1e-6, 0.4709, 0.0021, 0.49)  # fmt: skip
"""The same beside very large products of another program."""
PAGEABLE = Measured("states", 4, 40, 80, 170, 40_960, 2, 67_108_864, 0.5, 4,
                    12.7e-6, 0.1596, 0.8081, 0.02)  # fmt: skip
"""Copies of 64 MiB from pageable memory."""
TINY = Measured("states", 2, 40, 80, 70_458, 1_152, 0, 0, 2.1e-4, 4,
                4.6e-6, 0.0354, 0.0010, 0.001)  # fmt: skip
"""Inference of tiny layers."""

HTOD_S_PER_BYTE = PAGEABLE.blocked_copy_ratio / (
    PAGEABLE.launches_per_second / PAGEABLE.launches_per_batch * PAGEABLE.batch_bytes
)
"""Inside a pageable copy to the GPU: 7.1 GB/s."""
_READS = EAGER_LOGGED.launches_per_second * EAGER_LOGGED.reads_per_launch
DTOH_S_PER_BYTE = EAGER_LOGGED.blocked_copy_ratio / (_READS * EAGER_LOGGED.read_bytes)
"""Inside a pageable copy to the host: 2.7 GB/s."""


def _step_s(of: Measured) -> float:
    return of.launches_per_batch / of.launches_per_second


HOST_S_PER_READ = (
    _step_s(EAGER_LOGGED) * (1 - EAGER_LOGGED.blocked_copy_ratio) - _step_s(EAGER)
) / (EAGER_LOGGED.launches_per_batch * EAGER_LOGGED.reads_per_launch)
"""Of a tensor of 512 KiB, beside the wait in the copy: 0.6 ms."""
WAIT_S_PER_NORM = SMALL_NORMED.blocked_sync_ratio / (
    SMALL_NORMED.launches_per_second * SMALL_NORMED.reads_per_launch
)
"""Waited for each norm, on a device that others use as well: 0.5 ms."""
SLOWED_BY_BATCH = (REQUESTS_BESIDE.blocked_sync_ratio / REQUESTS_BESIDE.launches_per_second) / (
    REQUESTS.blocked_sync_ratio / REQUESTS.launches_per_second
)
"""How many times as long a request waits beside the batch job: 2.4."""
