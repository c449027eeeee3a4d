"""NVML in a thread of its own, so that a driver that hangs does not stop the tick."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from gpugauge.model.device import Inventory
from gpugauge.units import NS_PER_SECOND

DEADLINE_NS = NS_PER_SECOND // 4
"""How long a tick waits for an answer, at most."""

_READ, _RELEASE, _STOP = "read", "release", "stop"


class NvmlThread:
    """Asks for the inventory with a deadline.

    There is one thread for the life of the object: while a call in it hangs no
    other is started, ticks go on with the last answer and its age, and when the
    call returns the next tick has a new answer.
    """

    def __init__(
        self,
        read: Callable[[], Inventory],
        release: Callable[[], None],
        deadline_ns: int = DEADLINE_NS,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Start the thread, idle.

        Args:
            read: `NvmlInventory.read`.
            release: `NvmlInventory.release`.
            deadline_ns: How long `inventory` and `release` wait at most.
            clock_ns: A monotonic clock; tests give their own.
        """
        self._read = read
        self._release = release
        self._deadline_ns = deadline_ns
        self._clock_ns = clock_ns
        self._changed = threading.Condition()
        self._wanted = ""
        self._running = ""
        self._asked_ns = 0
        self._answer: Inventory | None = None
        self._answered_ns = 0
        # A daemon: a hanging driver must not keep the agent from ending.
        self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
        self._thread.start()

    @property
    def hanging(self) -> bool:
        """Whether a call is still out that was asked for more than a deadline ago."""
        with self._changed:
            return self._late()

    def inventory(self) -> Inventory:
        """Return a new answer, or the last one with its age and why it is not newer.

        Waits for at most the deadline, and not at all while an earlier call hangs.
        """
        with self._changed:
            if not self._busy():
                self._ask(_READ)
                self._wait()
            if not self._busy():
                return self._last()
            silent_s = (self._clock_ns() - self._asked_ns) // NS_PER_SECOND
            last = self._last() if self._answer else Inventory((), "", "")
            return replace(last, error=f"NVML not answering since {silent_s} s.")

    def release(self) -> bool:
        """Close NVML's handle, so that the driver can be unloaded.

        Returns:
            Whether it is closed; False while a call hangs, then ask again.
        """
        with self._changed:
            if self._busy():
                return False
            self._ask(_RELEASE)
            self._wait()
            return not self._busy()

    def close(self) -> bool:
        """Release, and end the thread.

        Returns:
            Whether it ended; False when a call hangs, and dies with the process.
        """
        released = self.release()
        with self._changed:
            self._wanted = _STOP
            self._changed.notify_all()
        if released:
            self._thread.join(self._deadline_ns / NS_PER_SECOND)
        return not self._thread.is_alive()

    def _busy(self) -> bool:
        return bool(self._wanted or self._running)

    def _late(self) -> bool:
        return self._busy() and self._clock_ns() - self._asked_ns >= self._deadline_ns

    def _ask(self, what: str) -> None:
        self._wanted = what
        self._asked_ns = self._clock_ns()
        self._changed.notify_all()

    def _wait(self) -> None:
        self._changed.wait_for(lambda: not self._busy(), self._deadline_ns / NS_PER_SECOND)

    def _last(self) -> Inventory:
        assert self._answer is not None  # noqa: S101 - one was given, or we would be busy
        return replace(self._answer, age_ns=max(0, self._clock_ns() - self._answered_ns))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._wanted))
                self._running, self._wanted = self._wanted, ""
            if self._running == _STOP:
                return
            answer = self._run(self._running)
            with self._changed:
                if answer is not None:
                    self._answer, self._answered_ns = answer, self._clock_ns()
                self._running = ""
                self._changed.notify_all()

    def _run(self, what: str) -> Inventory | None:
        # Whatever is raised, the thread must live on: it is the only one.
        if what == _RELEASE:
            with contextlib.suppress(Exception):
                self._release()
            return None
        try:
            return self._read()
        except Exception as error:
            return Inventory((), "", "", error=f"NVML failed: {type(error).__name__}: {error}.")
