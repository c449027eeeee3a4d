"""What all incidents have in common: when they begin, how long they are watched."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.incidents.node import Node
from tests.incidents.program import Process
from tests.incidents.scenario import Scenario, Truth

SATURATED = frozenset({"gpu_saturated"})
AFTER_S = 75.0


def onset(rng: random.Random) -> float:
    return rng.uniform(270, 400)


def incident(name: str, node: Node, truth: Truth, after_s: float = AFTER_S) -> Scenario:
    return Scenario(name, node, truth, truth.onset_s + after_s)


def change(process: Process, **values: object) -> None:
    process.program = replace(process.program, **values)  # type: ignore[arg-type]
