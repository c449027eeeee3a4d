"""Thresholds of the diagnosis rules: one field a threshold, its unit in its name.

A rule `starved` with a threshold on a share reads `starved_idle_ratio` from here;
see CONTRIBUTING.md, "A diagnosis rule".
"""

from __future__ import annotations

from dataclasses import dataclass

from gpugauge.settings.fields import bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisSettings:
    """Thresholds of the diagnosis rules. A ratio of 0.1 is a tenth."""

    # ---- time ------------------------------------------------------------------
    window_seconds: float = bounded(10.0, 1.0, 300.0)
    """What is called "now": rates and shares are taken over this time."""
    evaluate_seconds: float = bounded(3.0, 0.1, 60.0)
    """How often each workload is looked at, in turn with the others."""
    confirm_seconds: float = bounded(15.0, 0.0, 600.0)
    """How long a condition holds before it is a finding: longer than a hiccup, and short
    enough to name a cause within two scrapes of 15 s."""
    clear_seconds: float = bounded(30.0, 0.0, 3600.0)
    """How long the condition must be gone before the finding is closed."""
    event_seconds: float = bounded(300.0, 1.0, 86_400.0)
    """How long a finding about something that happened once (an error, out of memory) is
    shown."""
    gap_seconds: float = bounded(60.0, 1.0, 3600.0)
    """A longer gap between two snapshots ends every comparison across it."""
    # ---- what is usual for a workload ------------------------------------------
    startup_seconds: float = bounded(60.0, 0.0, 3600.0)
    """A process this young is starting: nothing is learned from it, and it is compared with
    nothing."""
    baseline_windows: int = bounded(5, 2, 1000)
    """Windows of one phase that must have been seen before anything is compared with it."""
    quarantine_seconds: float = bounded(45.0, 0.0, 3600.0)
    """Windows are learned this much later, so that the beginning of an incident is not."""
    # ---- harm ------------------------------------------------------------------
    harm_lost_ratio: float = bounded(0.12, 0.01, 1.0)
    """Work lost against what is usual, from which on a slower workload counts as harmed."""
    harm_idle_ratio: float = bounded(0.05, 0.01, 1.0)
    """Known idle time that was not there before, as a share of time."""
    # ---- added_synchronization -------------------------------------------------
    added_synchronization_calls_ratio: float = bounded(1.3, 1.05, 100.0)
    """Synchronizations, or copies of one direction, per launch, against what is usual."""
    added_synchronization_lost_ratio: float = bounded(0.05, 0.01, 1.0)
    """Work lost. Lower than for other rules, because the calls themselves tell the cause."""
    added_synchronization_wait_ratio: float = bounded(0.03, 0.005, 1.0)
    """Share of time that is newly spent waiting in synchronizations and copies, or idle."""
    # ---- noisy_neighbour -------------------------------------------------------
    noisy_neighbour_wait_ratio: float = bounded(1.3, 1.05, 100.0)
    """Wait per launch or per synchronization, against what is usual."""
    noisy_neighbour_busy_ratio: float = bounded(0.15, 0.01, 1.0)
    """Share of time in which others have work on the device, more than is usual."""
    # ---- cpu_starvation --------------------------------------------------------
    cpu_starvation_throttled_ratio: float = bounded(0.05, 0.005, 1.0)
    """Throttled time of the cgroup per second, more than is usual."""
    cpu_starvation_pressure_ratio: float = bounded(0.08, 0.005, 1.0)
    """Time with tasks stalled for a resource (PSI), more than is usual."""
    cpu_starvation_cpu_ratio: float = bounded(1.3, 1.05, 100.0)
    """CPU time per launch against what is usual, from which on the program's own code is
    named."""
    cpu_starvation_pause_seconds: float = bounded(120.0, 0.0, 3600.0)
    """Quiet time after a large copy to the host: a checkpoint is written meanwhile."""
    # ---- gpu_saturated ---------------------------------------------------------
    gpu_saturated_blocked_ratio: float = bounded(0.8, 0.1, 1.0)
    """Share of time blocked on the GPU."""
    gpu_saturated_idle_ratio: float = bounded(0.03, 0.0, 1.0)
    """Known idle time, at most."""
    # ---- hang ------------------------------------------------------------------
    hang_seconds: float = bounded(120.0, 1.0, 86_400.0)
    """Age of an open call while the process launches nothing. Other ranks of a job wait this
    long for one that writes a checkpoint."""
    hang_longest_ratio: float = bounded(3.0, 1.0, 100.0)
    """And as many times the longest wait that this workload has come back from."""
    # ---- idle_holder -----------------------------------------------------------
    idle_holder_seconds: float = bounded(1800.0, 1.0, 864_000.0)
    """Time without any work while a context or memory is held."""
    # ---- launch_bound ----------------------------------------------------------
    launch_bound_launches_per_second: float = bounded(10_000.0, 100.0, 10_000_000.0)
    """Launches of one process per second."""
    launch_bound_blocked_ratio: float = bounded(0.15, 0.0, 1.0)
    """Share of time blocked on the GPU, at most."""
    launch_bound_threads: float = bounded(262_144.0, 1.0, 1e9)
    """GPU threads per launch, at most: about what one large GPU holds at once."""
    # ---- host_slow -------------------------------------------------------------
    host_slow_issue_ratio: float = bounded(1.5, 1.05, 100.0)
    """Cost of issuing a launch, against what is usual."""
    host_slow_lost_ratio: float = bounded(0.05, 0.01, 1.0)
    """Work lost."""
    # ---- transfer_bound --------------------------------------------------------
    transfer_bound_blocked_ratio: float = bounded(0.35, 0.01, 1.0)
    """Share of time blocked in copies."""
    transfer_bound_bytes_per_second: float = bounded(50e6, 1e3, 1e12)
    """Bytes copied between host and device per second, at least."""
    # ---- allocator_churn -------------------------------------------------------
    allocator_churn_time_ratio: float = bounded(0.05, 0.005, 1.0)
    """Share of time inside allocations and frees."""
    allocator_churn_calls_per_second: float = bounded(10.0, 0.1, 1e6)
    """Allocations per second, at least."""
    # ---- cuda_errors -----------------------------------------------------------
    cuda_errors_per_second: float = bounded(1.0, 0.001, 1e6)
    """Failed calls per second with a code that a program may survive. Codes after which a
    context is lost are reported at the first."""
    # ---- held_above_requested --------------------------------------------------
    held_above_requested_bytes: int = bounded(4 * 1024**3, 1024**2, 1024**4)
    """Memory held beyond what was requested and beyond the contexts."""
    held_above_requested_ratio: float = bounded(0.5, 0.01, 1.0)
    """The same, as a share of what is held."""
    # ---- rank_straggler --------------------------------------------------------
    rank_straggler_blocked_ratio: float = bounded(0.4, 0.01, 0.99)
    """Blocked time of one process as a share of the median of its peers, at most."""
    rank_straggler_gap_ratio: float = bounded(0.2, 0.01, 1.0)
    """Share of time that the peers wait longer than it."""
