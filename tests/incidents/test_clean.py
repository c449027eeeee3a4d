"""A cleaned recording holds no name, and says the same of its programs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from gpugauge.codec.snapshot import dump_snapshot
from gpugauge.model.snapshot import Snapshot
from tests.incidents.clean import Cleaner, cut
from tests.support.random_snapshots import snapshots
from tests.support.snapshots import busy_snapshot, next_tick


def texts(plain: Any) -> set[str]:
    """Return every text in a document."""
    if isinstance(plain, dict):
        return set().union(*(texts(value) for value in plain.values()))
    if isinstance(plain, list):
        return set().union(*(texts(value) for value in plain))
    return {plain} if isinstance(plain, str) else set()


def names(snapshot: Snapshot) -> set[str]:
    """Return the texts that tell whose it is."""
    owners = [p.owner for p in snapshot.processes] + [s.owner for s in snapshot.series]
    owners += [t.owner for t in snapshot.times] + [h.owner for h in snapshot.hosts]
    found = {snapshot.node} | {p.comm for p in snapshot.processes}
    for owner in owners:
        found |= {owner.namespace, owner.pod, owner.container, owner.workload, owner.pod_uid,
                  owner.container_id}  # fmt: skip
    for device in snapshot.devices:
        found |= {device.uuid, device.mig_parent_uuid}
    return found - {"", "unknown", "default", "main", "python3"}


@settings(max_examples=30)
@given(snapshots())
def test_any_snapshot_can_be_cleaned(snapshot: Snapshot) -> None:
    cleaned = Cleaner().clean(snapshot)
    assert len(cleaned.processes) == len(snapshot.processes)
    assert len(cleaned.series) == len(snapshot.series)


def test_no_name_is_left() -> None:
    snapshot = busy_snapshot()
    assert len(names(snapshot)) > 3
    assert not names(snapshot) & texts(json.loads(dump_snapshot(Cleaner().clean(snapshot))))


def test_the_same_thing_has_the_same_name_and_its_numbers() -> None:
    first = busy_snapshot()
    second = next_tick(first)
    cleaner = Cleaner()
    one, other = cleaner.clean(first), cleaner.clean(second)
    assert [p.pid for p in one.processes] == [p.pid for p in other.processes]
    assert [s.owner for s in one.series] == [s.owner for s in other.series]
    assert [s.operations for s in other.series] == [s.operations for s in second.series]
    assert other.time_monotonic_ns - one.time_monotonic_ns == (
        second.time_monotonic_ns - first.time_monotonic_ns
    )


def test_only_what_is_kept_stays() -> None:
    snapshot = busy_snapshot()
    kept = snapshot.processes[0]
    cleaned = Cleaner({kept.pid}).clean(snapshot)
    assert len(cleaned.processes) == 1
    owners = {cleaned.processes[0].owner}
    assert {s.owner for s in cleaned.series} <= owners
    assert {t.owner for t in cleaned.times} <= owners


def test_a_cut_is_by_time_and_by_number() -> None:
    ticks = [busy_snapshot()]
    for _ in range(11):
        ticks.append(next_tick(ticks[-1]))
    step_s = (ticks[1].time_monotonic_ns - ticks[0].time_monotonic_ns) / 1e9
    left = list(cut(ticks, 2 * step_s, 7 * step_s))
    assert left == ticks[2:8]
    assert list(cut(ticks, 0, 11 * step_s, every=3)) == ticks[::3]
