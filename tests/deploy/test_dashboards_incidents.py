"""The three incidents are told apart by the first line of the workload dashboard."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.deploy.boards import boards, filled, queries
from tests.deploy.incident_series import Incident, import_series, play
from tests.deploy.prometheus import Prometheus, prometheus
from tests.incidents.incidents import INCIDENTS

RULES = ("added_synchronization", "noisy_neighbour", "cpu_starvation")
SEEDS = (1, 2)
HOURS_AGO_S = 3 * 3600
LATER_S = 70
"""When somebody looks, after the onset."""
COMPARED_S = 120
NAMES = [(rule, make(random.Random(0)).name) for rule, make, _unseen in INCIDENTS if rule in RULES]
CASES = [(rule, name, seed) for rule, name in NAMES for seed in SEEDS]
NEW_POD = "a new pod that logs tensors"
"""Before its onset its pod has just started, and is no calm time to compare."""


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[tuple[Prometheus, dict[tuple[str, str, int], Incident]]]:
    folder = tmp_path_factory.mktemp("incidents")
    data = folder / "data"
    data.mkdir()
    began_s = time.time() - HOURS_AGO_S
    incidents = {
        case: play(*case, began_s=began_s, cluster=str(number)) for number, case in enumerate(CASES)
    }
    import_series([*incidents.values()], data)
    with prometheus(folder, {}) as server:
        yield server, incidents


def glance(server: Prometheus, of: Incident, at_s: float) -> dict[str, float]:
    """Return the numbers of the first line that are known, by title."""
    values = {
        "cluster": of.cluster,
        "namespace": "ml",
        "workload": of.workload,
        "pod": ".*",
        "gpu": ".*",
        "compare": f"{COMPARED_S}s",
        "__rate_interval": "30s",
    }
    board = boards()["workload"]
    found = {}
    for query in queries("workload", board):
        if query.title.endswith(", change"):
            lines = server.query(filled(query.expr, values), at_s)
            if lines:
                (line,) = lines
                found[query.title.removesuffix(", change")] = float(line["value"][1])
    return found


def read(numbers: dict[str, float]) -> str:
    """Return which incident the text beside the numbers calls it."""
    if numbers["Stops per launch"] > 0.3:
        return "added_synchronization"
    if numbers["Others' calls"] > 0 and numbers["Wait per launch"] > 0.3:
        return "noisy_neighbour"
    if numbers["GPU waits"] > 0.03 and numbers["Demand"] < -0.1:
        return "cpu_starvation"
    return ""


@pytest.mark.parametrize(("rule", "name", "seed"), CASES)
def test_an_incident_is_read_as_what_it_is(world, rule, name, seed):
    server, incidents = world
    incident = incidents[rule, name, seed]
    numbers = glance(server, incident, incident.onset_s + LATER_S)
    assert read(numbers) == rule, numbers


@pytest.mark.parametrize(("rule", "name", "seed"), [c for c in CASES if c[1] != NEW_POD])
def test_a_calm_time_is_read_as_nothing(world, rule, name, seed):
    server, incidents = world
    incident = incidents[rule, name, seed]
    numbers = glance(server, incident, incident.onset_s - 20)
    assert len(numbers) == 7, numbers
    assert read(numbers) == "", numbers


def test_the_line_is_what_the_text_explains(world):
    board = boards()["workload"]
    (text,) = [p for p in board["panels"] if p["type"] == "text"]
    heading = text["options"]["content"].strip().splitlines()[0]
    told = {each.strip() for each in heading.split("|") if each.strip()}
    server, incidents = world
    incident = next(iter(incidents.values()))
    shown = {each.lower() for each in glance(server, incident, incident.onset_s)}
    assert told == {each.replace("gpu", "GPU") for each in shown} - {"host waits"}
