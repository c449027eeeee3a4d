"""A scenario: a node, a script of what happens on it, and the truth."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.incidents.node import Node

WITHIN_S = 30.0
"""Two scrapes of 15 s."""
START_S = 60.0
"""The first minute of a process is its start."""


@dataclass
class Truth:
    """What is wrong, written by who made it so."""

    rule: str
    """"" for healthy."""
    pod: str
    onset_s: float
    """Since the beginning: from here on the cause is there and can be seen."""
    words: tuple[str, ...] = ()
    """Texts that the finding must hold somewhere: the cause, the other side."""
    also: frozenset[str] = frozenset({"gpu_saturated"})
    """Other rules that are true as well: a healthy program may saturate its GPU."""


@dataclass
class Scenario:
    """What happens on a node."""

    name: str
    node: Node
    truth: Truth
    length_s: float
    script: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    unseen: bool = False
    """Not looked at while tuning."""

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Let something happen at a time since the beginning."""
        self.script.append((when_s, action))


Maker = Callable[[random.Random], Scenario]
