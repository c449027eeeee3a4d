"""Log lines at a bounded rate, and the last ones kept."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from gpugauge.agent.logs import LINES_PER_MINUTE, LastLines, RateLimit
from gpugauge.agent.watchdog import Watchdog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(message: str, *args: object, line: int = 7) -> logging.LogRecord:
    return logging.LogRecord("gpugauge.x", logging.INFO, "x.py", line, message, args, None)


def test_one_message_is_written_only_so_often_whatever_its_arguments() -> None:
    clock = Clock()
    limit = RateLimit(clock=clock)
    allowed = [limit.filter(record("not attached to %s", f"/tenant/{n}")) for n in range(1009)]
    assert sum(allowed) == LINES_PER_MINUTE
    assert limit.filter(record("another", line=9))
    clock.now += 60
    told = record("not attached to %s", "/tenant/x")
    assert limit.filter(told)
    held = 1009 - LINES_PER_MINUTE
    assert told.getMessage() == (
        f"not attached to /tenant/x ({held} lines like this were not written)"
    )
    again = record("not attached to %s", "/tenant/y")
    assert limit.filter(again)
    assert again.getMessage() == "not attached to /tenant/y"


def test_many_messages_cost_a_bounded_table() -> None:
    limit = RateLimit(clock=Clock())
    for line in range(2003):
        assert limit.filter(record("one of many", line=line))
    assert len(limit._said) <= 256


def test_the_last_lines_are_kept() -> None:
    kept = LastLines(3)
    for number in range(11):
        kept.handle(record("line %d", number))
    assert [line.rsplit(" ", 1)[1] for line in kept.lines] == ["8", "9", "10"]


def test_a_tick_that_stands_still_is_told_once_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(stalled_seconds=0.05, check_seconds=0.01)
    try:
        hang_here(caplog)
        for _ in range(3):
            watchdog.fed()
            time.sleep(0.02)
    finally:
        watchdog.close()
    told = [each.getMessage() for each in caplog.records if "stood still" in each.getMessage()]
    assert len(told) == 1
    assert "hang_here" in told[0]


def hang_here(caplog: pytest.LogCaptureFixture) -> None:
    deadline = time.monotonic() + 20
    while not caplog.records and time.monotonic() < deadline:
        threading.Event().wait(0.01)
