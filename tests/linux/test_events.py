"""The wait for rare events: another thread can end it."""

from __future__ import annotations

import threading
from pathlib import Path

from gpugauge.agent.events import Events
from tests.linux.tracing import traced


def test_a_wait_ends_when_it_is_woken_and_the_next_one_waits(tmp_path: Path) -> None:
    with traced(tmp_path, instant=1) as it:
        events = Events(it.tracer.loaded)
        try:
            assert not events.wait(0)
            waker = threading.Thread(target=events.wake)
            waker.start()
            assert events.wait(60)
            waker.join()
            assert not events.wait(0)
            assert events.read().ended == ()
            for _ in range(3):
                events.wake()
            assert events.wait(0)
            assert not events.wait(0)
        finally:
            events.close()
