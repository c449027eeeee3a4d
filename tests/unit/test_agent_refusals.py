"""Who is refused rows is named, once for each growth."""

from __future__ import annotations

import pytest

from gpugauge.agent.refusals import Refusals
from gpugauge.model.abi import Loss
from gpugauge.model.workload import Owner, Scope

POD = Owner(Scope.POD, "team", "flood-0")


def test_it_names_the_pod_and_asks_only_when_something_was_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows: dict[int, dict[str, int]] = {}
    asked: list[int] = []

    def refused() -> dict[int, dict[str, int]]:
        asked.append(1)
        return rows

    refusals = Refusals(refused)
    refusals.look({Loss.QUOTA: 0}, dict)
    assert not asked
    rows = {71: {"allocations": 101, "ring": 7}, 73: {"ring": 11}}
    refusals.look({Loss.QUOTA: 101}, lambda: {71: POD})
    refusals.look({Loss.QUOTA: 101}, lambda: {71: POD})
    rows = {71: {"allocations": 103}, 79: {"streams": 3}}
    refusals.look({Loss.QUOTA: 106}, lambda: {71: POD})
    assert len(asked) == 2
    assert [each.getMessage().split(":")[0] for each in caplog.records] == [
        "team/flood-0 wants more than its share of the BPF maps",
        "team/flood-0 wants more than its share of the BPF maps",
        "cgroup 79 wants more than its share of the BPF maps",
    ]
    assert caplog.records[0].getMessage().endswith("101 allocations")
