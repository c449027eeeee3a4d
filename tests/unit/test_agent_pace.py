"""When the agent reads: as set, less often where it costs much, and when a reader asks."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugauge.agent.pace import CPU_RATIO, SLOWEST_SECONDS, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 0.0


def paced(clock: Clock, tick_seconds: float = 1.0, wake=lambda: None) -> Pace:
    return Pace(tick_seconds, wake, now_seconds=lambda: clock.now, cpu_seconds=lambda: clock.cpu)


def tick(pace: Pace, clock: Clock, cost: float) -> None:
    with pace.ticking():
        clock.cpu += cost
        clock.now += cost


@given(st.lists(st.floats(0, 0.2), max_size=30), st.floats(0.1, 20))
def test_ticks_are_never_closer_than_set_nor_too_far(costs: list[float], every: float) -> None:
    clock = Clock()
    pace = paced(clock, every)
    for cost in costs:
        tick(pace, clock, cost)
        assert every <= pace.seconds <= max(every, SLOWEST_SECONDS)


@pytest.mark.parametrize("cost", [0.0001, 0.002, 0.007, 0.014])
def test_ticks_stay_within_their_part_of_a_core(cost: float) -> None:
    clock = Clock()
    pace = paced(clock)
    for _ in range(5):
        tick(pace, clock, cost)
    assert cost / pace.seconds <= CPU_RATIO * 1.001
    assert pace.seconds == pytest.approx(max(1.0, cost / CPU_RATIO))


def test_a_reader_gets_what_there_is_while_it_is_fresh() -> None:
    clock, woken = Clock(), []
    pace = paced(clock, wake=lambda: woken.append(1))
    tick(pace, clock, 0.01)
    clock.now += 0.5
    pace.renew()
    assert not woken
    assert not pace.asked


def test_readers_wait_for_one_tick_together() -> None:
    clock, woken = Clock(), threading.Semaphore(0)
    pace = paced(clock, wake=woken.release)
    tick(pace, clock, 0.01)
    clock.now += 3
    readers = [threading.Thread(target=pace.renew) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in readers:
        assert woken.acquire(timeout=60)
    assert pace.asked
    tick(pace, clock, 0.01)
    assert not pace.asked
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()


def test_a_reader_does_not_wait_for_a_tick_that_hangs() -> None:
    pace = paced(Clock())
    pace.renew()  # returns, though nothing ticks
    assert pace.asked


def test_a_tick_that_fails_lets_readers_go_on() -> None:
    clock = Clock()
    pace = paced(clock)
    with pytest.raises(ValueError), pace.ticking():
        raise ValueError
    clock.now += 0.1
    pace.renew()
    assert not pace.asked
