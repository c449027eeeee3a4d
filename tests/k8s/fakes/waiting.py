"""Waiting for what another thread will do, without saying how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(question: Callable[[], T], *, seconds: float = 15.0) -> T:
    """Ask until the answer is true, and return it; fail after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
