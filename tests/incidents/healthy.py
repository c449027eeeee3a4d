"""Healthy hours of many kinds: nothing here is an incident, whatever it looks like."""

from __future__ import annotations

from tests.incidents.healthy_alone import (
    allowed_throttling,
    autoscaled,
    bursts,
    checkpoints,
    eager_drifts,
    evaluation,
    hiccups,
    loaders_restart,
    moved_wait,
    phases,
    starts_and_stops,
    steady_training,
)
from tests.incidents.healthy_shared import (
    crowded,
    disturbed,
    host_processes,
    missing_data,
    quiet_neighbour,
    ranks_checkpoint,
    replica_added,
    shared_always,
    short_processes,
    uneven_ranks,
)
from tests.incidents.scenario import Maker

HEALTHY: tuple[tuple[str, Maker, bool], ...] = tuple(
    ("", maker, unseen)
    for maker, unseen in (
        (steady_training, False),
        (checkpoints, False),
        (evaluation, False),
        (starts_and_stops, False),
        (bursts, False),
        (autoscaled, False),
        (replica_added, True),
        (shared_always, False),
        (quiet_neighbour, False),
        (moved_wait, False),
        (phases, False),
        (hiccups, False),
        (short_processes, False),
        (missing_data, False),
        (disturbed, False),
        (ranks_checkpoint, False),
        (uneven_ranks, True),
        (host_processes, False),
        (allowed_throttling, False),
        (loaders_restart, False),
        (eager_drifts, False),
        (crowded, True),
    )
)
