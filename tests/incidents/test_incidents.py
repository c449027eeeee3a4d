"""A short slice of the suite: one incident of each kind, and an hour of each healthy kind.

`make incidents` runs the whole.
"""

import random

import pytest

from gpugauge.agent.pace import SLOWEST_SECONDS
from tests.incidents.healthy import HEALTHY
from tests.incidents.incidents import INCIDENTS
from tests.incidents.suite import play

TUNED = [(rule, maker) for rule, maker, unseen in INCIDENTS if not unseen]
QUIET = [maker for _, maker, unseen in HEALTHY if not unseen]
SLICE = sorted({rule for rule, _ in TUNED})


@pytest.mark.parametrize("rule", SLICE)
def test_an_incident_of_each_rule_is_named_in_time_and_nothing_else(rule: str) -> None:
    maker = next(maker for name, maker in TUNED if name == rule)
    outcome = play(maker(random.Random(7)), 7)
    assert outcome.found, outcome
    assert outcome.right, outcome


@pytest.mark.parametrize("rule", SLICE)
def test_a_full_node_that_is_read_seldom_is_told_the_same(rule: str) -> None:
    maker = next(maker for name, maker in TUNED if name == rule)
    outcome = play(maker(random.Random(7)), 7, every_seconds=SLOWEST_SECONDS)
    assert outcome.right, outcome


@pytest.mark.parametrize("maker", QUIET[::2], ids=lambda maker: maker.__name__)
def test_healthy_work_raises_no_alarm(maker) -> None:  # type: ignore[no-untyped-def]
    scenario = maker(random.Random(11))
    scenario.length_s = min(scenario.length_s, 120 * scenario.node.dt)
    assert play(scenario, 11).wrong == []


def test_the_generator_knows_nothing_of_the_diagnosis() -> None:
    from pathlib import Path

    here = Path(__file__).parent
    names = ("node", "seen", "program", "programs", "measured", "scenario", "incident", "incidents")
    names += ("slower", "states", "hour", "healthy", "healthy_alone", "healthy_shared")
    for name in names:
        text = (here / f"{name}.py").read_text()
        assert "gpugauge.diagnosis" not in text
        assert "DiagnosisSettings" not in text
