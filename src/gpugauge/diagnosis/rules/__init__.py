"""The rules: one file each. To add one, write the file and name it here."""

from gpugauge.diagnosis.rule import Rule
from gpugauge.diagnosis.rules import (
    added_synchronization,
    allocator_churn,
    cpu_starvation,
    cuda_errors,
    gpu_saturated,
    hang,
    held_above_requested,
    host_slow,
    idle_holder,
    launch_bound,
    noisy_neighbour,
    out_of_memory,
    rank_straggler,
    transfer_bound,
    unrequested_gpu,
)

RULES: tuple[Rule, ...] = (
    added_synchronization.RULE,
    noisy_neighbour.RULE,
    cpu_starvation.RULE,
    hang.RULE,
    out_of_memory.RULE,
    cuda_errors.RULE,
    rank_straggler.RULE,
    host_slow.RULE,
    allocator_churn.RULE,
    transfer_bound.RULE,
    launch_bound.RULE,
    idle_holder.RULE,
    held_above_requested.RULE,
    unrequested_gpu.RULE,
    gpu_saturated.RULE,
)
"""In the order of docs/rules.md."""
