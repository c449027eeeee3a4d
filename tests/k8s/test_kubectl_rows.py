"""The rows of `top`, from two readings: what is known, what is not, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from gpugauge.cli.top.rows import Row, interval_ns, rows
from gpugauge.cli.top.sort import ordered
from gpugauge.export.pages import owners_alone
from gpugauge.model.finding import Severity
from gpugauge.model.snapshot import Snapshot
from gpugauge.model.workload import HOST, Owner, Scope
from gpugauge.remote.reading import Reading
from tests.k8s.readings import INTERVAL_NS, Work, finding, reading, two
from tests.support.random_snapshots import snapshots
from tests.support.snapshots import GPU_A, GPU_B, SECOND, busy_snapshot, device, health, owner

TRAIN = owner("train-0")
PRIME = Work(
    owner=TRAIN,
    launches=15_485_863,
    to_gpu_bytes=982_451_653,
    to_host_bytes=67_867_967,
    waits_ns=1_300_000_021,
    idle_ns=433_494_437,
    held_bytes=5_915_587_277,
    requested_bytes=3_367_900_313,
)
SECONDS = INTERVAL_NS / SECOND


def shown(before: Snapshot | None, now: Snapshot, findings: Any = (), **given: Any) -> list[Row]:
    return rows(Reading(before, ()) if before else None, Reading(now, findings), **given)


def after(*works: Work, **given: Any) -> Snapshot:
    return reading(works, "node-a", after=True, **given)


BEFORE = reading([PRIME], "node-a", after=False)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, after(PRIME)),
        (BEFORE, BEFORE),
        (reading([], "node-a", after=False), after(PRIME)),
        (BEFORE, after(PRIME, agent=health(started_ns=9_999_991))),
        (BEFORE, after(PRIME, agent=health())),
        (BEFORE, after(PRIME, number=2)),
        (BEFORE, after(PRIME, time_monotonic_ns=3)),
    ],
    ids=["one look", "no tick between", "a new pod", "restarted", "another version", "ticks anew",
         "booted"],
)  # fmt: skip
def test_without_two_readings_of_one_run_no_rate_is_known(
    before: Snapshot | None, now: Snapshot
) -> None:
    (row,) = shown(before, now)
    assert row.launches_per_second is None
    assert row.to_gpu_bytes_per_second is None
    assert row.to_host_bytes_per_second is None
    assert row.known_idle_ratio is None
    # What is known of now stays.
    assert (row.memory_held_bytes, row.memory_requested_bytes) == (5_915_587_277, 3_367_900_313)


@pytest.mark.parametrize(
    ("back", "unknown"),
    [
        ({"launches": -2}, "launches_per_second"),
        ({"to_gpu_bytes": -3}, "to_gpu_bytes_per_second"),
        ({"to_host_bytes": -5}, "to_host_bytes_per_second"),
        ({"waits_ns": -7}, "host_waits_ratio"),
        ({"idle_ns": -11}, "known_idle_ratio"),
        ({"idle_ns": None}, "known_idle_ratio"),
        ({"times": False}, "host_waits_ratio"),
    ],
)
def test_a_counter_that_went_back_is_not_known_and_the_others_are(
    back: dict[str, Any], unknown: str
) -> None:
    (row,) = shown(BEFORE, after(replace(PRIME, **back)))
    figures = {
        "launches_per_second": 15_485_863 / SECONDS,
        "to_gpu_bytes_per_second": 982_451_653 / SECONDS,
        "to_host_bytes_per_second": 67_867_967 / SECONDS,
        "host_waits_ratio": 1_300_000_021 / INTERVAL_NS,
        "known_idle_ratio": 433_494_437 / INTERVAL_NS,
    } | {unknown: None}
    assert {name: getattr(row, name) for name in figures} == figures


def test_idle_of_several_processes_is_a_share_of_all_their_time() -> None:
    before, now = two([replace(PRIME, processes=3)], "node-a")
    (row,) = shown(before, now)
    assert row.known_idle_ratio == 433_494_437 / (3 * INTERVAL_NS)
    assert row.host_waits_ratio == 1_300_000_021 / (3 * INTERVAL_NS)
    # One that came between was there for a part: the bound must not rise above the truth.
    (row,) = shown(BEFORE, now)
    assert row.known_idle_ratio == 433_494_437 / (3 * INTERVAL_NS)


def test_graphs_of_unknown_content_make_launches_a_lower_bound() -> None:
    (row,) = shown(BEFORE, after(replace(PRIME, nodes=11, unknown_graphs=1)))
    assert row.launches_per_second == (15_485_863 + 11) / SECONDS
    assert row.launches_at_least
    (row,) = shown(BEFORE, after(PRIME))
    assert not row.launches_at_least


def test_sharers_are_pods_containers_and_the_host() -> None:
    works = [
        Work(owner=owner("a", container="one")),
        Work(owner=owner("a", container="two")),
        Work(owner=owner("b")),
        Work(owner=owner("over"), processes=0),
        Work(owner=HOST),
        Work(owner=Owner(Scope.CONTAINER, container_id="c1")),
        Work(owner=Owner(Scope.CONTAINER, container_id="c2")),
        Work(owner=owner("c"), gpu_uuid=GPU_B),
        Work(owner=owner("d"), gpu_uuid="unknown"),
    ]
    found = shown(None, after(*works, devices=(device(GPU_A), device(GPU_B))))
    assert [row.sharers for row in found] == [5, 5, 5, 5, 5, 5, 1, None]
    assert {row.owner.pod for row in shown(None, after(*works), ended=True)} >= {"over"}


def test_findings_are_those_of_the_container_on_this_gpu_the_gravest_first() -> None:
    two_gpus = [PRIME, Work(owner=TRAIN, gpu_uuid=GPU_B), Work(owner=owner("train-0", "other"))]
    found = [
        finding("idle_holder", TRAIN, Severity.INFO),
        finding("hang", TRAIN, Severity.CRITICAL, gpu_uuid=""),
        finding("noisy_neighbour", replace(TRAIN, container="")),
        finding("cuda_errors", replace(TRAIN, container="side")),
        finding("host_slow", None),
    ]
    first, second, other = shown(None, after(*two_gpus), found)
    assert [f.rule for f in first.findings] == ["hang", "noisy_neighbour", "idle_holder"]
    assert [f.rule for f in second.findings] == ["hang"]
    assert other.findings == ()
    assert not shown(None, after(PRIME), None)[0].findings_known


SORTED = {
    "launches": Work(owner=owner("z"), launches=3),
    "waits": Work(owner=owner("z"), waits_ns=3),
    "idle": Work(owner=owner("z"), idle_ns=3),
    "to-gpu": Work(owner=owner("z"), to_gpu_bytes=3),
    "to-host": Work(owner=owner("z"), to_host_bytes=3),
    "memory": Work(owner=owner("z"), held_bytes=3),
    "findings": Work(owner=owner("z")),
}


@pytest.mark.parametrize("sort", SORTED)
def test_the_most_comes_first_and_what_is_not_known_last(sort: str) -> None:
    works = [Work(owner=owner("b"), idle_ns=None), Work(owner=owner("a")), SORTED[sort]]
    found = shown(*two(works, "node-a"), [finding("hang", owner("z"))])
    names = [row.owner.pod for row in ordered(found, sort)]
    assert names == ["z", "a", "b"]
    assert [row.owner.pod for row in ordered(found, "name")] == ["a", "b", "z"]


@settings(max_examples=25)  # of two whole snapshots
@given(snapshots(), snapshots())
def test_any_two_snapshots_give_rows_whose_figures_make_sense(
    before: Snapshot, now: Snapshot
) -> None:
    for row in shown(before, now, (), ended=True):
        for ratio in (row.host_waits_ratio, row.known_idle_ratio):
            assert ratio is None or 0 <= ratio <= 1
        for rate in (row.launches_per_second, row.to_gpu_bytes_per_second):
            assert rate is None or rate >= 0
    passed = interval_ns(before, now)
    assert passed is None or passed > 0


def test_the_totals_of_owners_are_all_that_rows_need() -> None:
    whole = busy_snapshot()
    alone = owners_alone(whole)
    assert alone.processes == ()
    assert shown(None, alone) == shown(None, whole)
