"""What all healthy hours have in common."""

from __future__ import annotations

from dataclasses import replace

from tests.incidents.node import Node
from tests.incidents.program import Process
from tests.incidents.scenario import Scenario, Truth

DT_S = 15.0
HOUR_S = 3600.0
STATES = frozenset({"gpu_saturated"})


def hour(
    name: str, node: Node, also: frozenset[str] = STATES, length_s: float = HOUR_S
) -> Scenario:
    return Scenario(name, node, Truth("", "", 0.0, also=also), length_s)


def set_values(process: Process, **values: object) -> None:
    process.program = replace(process.program, **values)  # type: ignore[arg-type]
