"""The off switch of several places: who wins, what is told, and a side that breaks."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from gpugauge.agent import switch as agent_switch
from gpugauge.agent.cluster_side import ClusterSide
from gpugauge.agent.switch import Switch
from gpugauge.model.cluster import OffSwitch
from gpugauge.settings import Settings
from tests.support.snapshots import busy_snapshot


class Place:
    """A place that says what a test says."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.where = f"the {source}"
        self.off = False
        self.error = ""
        self.heard = True
        self.calls: list[str] = []

    @property
    def state(self) -> OffSwitch:
        return OffSwitch(source=self.source, off=self.off, error=self.error)

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def it() -> Iterator[Switch]:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield Switch()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_probes_are_turned_once_for_each_change_of_the_whole(it: Switch) -> None:
    one, other = Place("node"), Place("config_map")
    it.watch((one, other))
    turns: list[bool] = []
    it.connect(turns.append, off=False)
    for place, off, expected in (
        (one, True, [False]),
        (other, True, [False]),
        (one, False, [False]),
        (other, False, [False, True]),
    ):
        place.off = off
        it.apply()
        it.apply()
        assert turns == expected
    os.kill(os.getpid(), signal.SIGUSR1)
    it.apply()
    one.off = True
    os.kill(os.getpid(), signal.SIGUSR2)
    it.apply()
    assert turns == [False, True, False]
    it.close()
    one.off = False
    it.apply()
    assert turns == [False, True, False]
    assert one.calls == other.calls == ["start", "stop"]


def test_what_changed_before_the_probes_were_there_is_made_up_for(it: Switch) -> None:
    place = Place("node")
    it.watch((place,))
    place.off = True
    turns: list[bool] = []
    it.connect(turns.append, off=False)
    assert turns == [False]
    place.off = False
    again: list[bool] = []
    it.connect(again.append, off=True)
    assert again == [True]


def test_many_threads_end_with_what_is_said_last(it: Switch) -> None:
    places = [Place(name) for name in "abcdefgh"]
    it.watch(places)
    turns: list[bool] = []
    it.connect(turns.append, off=False)

    def flip(place: Place) -> None:
        for _ in range(307):
            place.off = not place.off
            it.apply()

    threads = [threading.Thread(target=flip, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert it.off  # 307 is odd
    assert turns[-1] is False
    assert all(a is not b for a, b in pairwise(turns))


def test_a_place_that_stays_unread_is_told_once_and_its_return_too(
    it: Switch, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("node")
    it.watch((place,))
    caplog.set_level(logging.INFO)
    place.error = "It does not answer."
    it.report()
    assert caplog.messages == []  # a short gap is usual
    monkeypatch.setattr(agent_switch, "UNREAD_SECONDS", 0.0)
    for _ in range(3):
        it.report()
    place.error = ""
    for _ in range(3):
        it.report()
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "the off switch by the node cannot be read, what it said last holds",
        "the off switch by the node can be read again",
    ]


def test_a_fault_of_this_side_leaves_the_snapshot_and_the_switch(
    it: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def observe(self, *_: Any) -> None:
            raise RuntimeError("a fault")

    side = ClusterSide(Settings(), it)
    side._score = Broken()  # type: ignore[assignment]
    for _ in range(3):
        seen = side.observe(busy_snapshot(), ())
        assert [each.source for each in seen.agent.off_switches] == ["signal"]
        assert seen.series == busy_snapshot().series
    assert len(caplog.messages) == 1
