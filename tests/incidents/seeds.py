"""From seeds to scenarios: which is which, and which are not looked at while tuning."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.incidents.healthy import HEALTHY
from tests.incidents.incidents import INCIDENTS
from tests.incidents.scenario import Maker
from tests.incidents.suite import Outcome, play


def run_incidents(seeds: Iterable[int]) -> list[Outcome]:
    """Run the incident of each seed."""
    return run_seeds(INCIDENTS, seeds)


def run_healthy(seeds: Iterable[int]) -> list[Outcome]:
    """Run the healthy time of each seed."""
    return run_seeds(HEALTHY, seeds)


def run_seeds(table: tuple[tuple[str, Maker, bool], ...], seeds: Iterable[int]) -> list[Outcome]:
    """Run the scenario of each seed: the makers of the table in turn."""
    outcomes = []
    for seed in seeds:
        _, maker, unseen = table[seed % len(table)]
        scenario = maker(random.Random(seed))
        scenario.unseen = unseen or is_unseen(seed, len(table))
        outcomes.append(play(scenario, seed))
    return outcomes


def is_unseen(seed: int, makers: int) -> bool:
    """Whether it is of the fifth of the seeds that are not looked at while tuning."""
    return (seed // makers) % 5 == 4
