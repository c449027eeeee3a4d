"""The node's GPUs as NVML tells them: asked while somebody uses one, else let go at once.

A GPU that nobody uses has a name and a price too: who pays for idle ones wants to see those first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gpugauge.model.device import Inventory
from gpugauge.units import NS_PER_SECOND
from gpugauge.vendors.nvml import NvmlInventory
from gpugauge.vendors.nvml_thread import NvmlThread

ASK_SECONDS = 2.0
"""NVML is asked this often: its lists of processes cost milliseconds."""
IDLE_ASK_SECONDS = 3600.0
"""The same while nobody uses a GPU: the layout of MIG or the driver may be another one since. It
is let go at once, so that an upgrade of the driver can go on."""
UNKNOWN_ASK_SECONDS = 30.0
"""The same as long as there was no answer: the driver may come later than the agent."""
ASK_SECONDS_AT_LEAST = 0.2
"""Between two questions that new contexts give rise to."""
LISTED = "NVML lists it on a device"


class Devices:
    """The last inventory, and when to ask for a new one. For one thread."""

    def __init__(
        self,
        nvml: NvmlThread | None = None,
        clock: Callable[[], float] = time.monotonic,
        library_path: str = "",
    ) -> None:
        """Take what to ask; None is NVML itself.

        Args:
            nvml: The thread that asks.
            library_path: Where NVML is; "" leaves the search to the loader.
            clock: In seconds; tests give their own.
        """
        if nvml is None:
            inventory = NvmlInventory(library_path=library_path)
            nvml = NvmlThread(inventory.read, inventory.release)
        self._nvml = nvml
        self._clock = clock
        self._asked_at = float("-inf")
        self._late = False
        """The last question had no answer in time."""
        self.released = False
        """NVML is closed, because nobody uses a GPU: an upgrade of the driver can go on."""
        self.inventory = Inventory((), "", "", error="NVML was not asked yet.")

    def ask(self, *, in_use: bool, every_seconds: float = ASK_SECONDS) -> bool:
        """Bring the inventory up to date; return whether NVML gave a new answer.

        Args:
            in_use: Some process uses a GPU, or did a moment ago.
            every_seconds: A younger answer is new enough.
        """
        now = self._clock()
        if not in_use:
            every_seconds = self._idle_seconds()
        elif self.released:
            every_seconds = 0.0  # what it said before is old, and somebody waits for it
        if now - self._asked_at >= every_seconds:
            self.released = False
            self._asked_at = now
            self.inventory = self._nvml.inventory()
            self._late = self._nvml.hanging
            return True
        if not in_use and not self.released and not self._late and self._nvml.release():
            self.released = True
            self.inventory = without_figures(self.inventory)
        if self._asked_at > float("-inf"):
            age_ns = int((now - self._asked_at) * NS_PER_SECOND)
            self.inventory = replace(self.inventory, age_ns=max(age_ns, self.inventory.age_ns))
        return False

    def _idle_seconds(self) -> float:
        if self._late:
            # A GPU takes longer to wake than a tick waits: let it go after its answer.
            return float("inf") if self._nvml.hanging else 0.0
        return UNKNOWN_ASK_SECONDS if self.inventory.error else IDLE_ASK_SECONDS

    def listed(self) -> dict[int, str]:
        """Return the processes that NVML lists now, by pid, with why they are known."""
        if self.inventory.error:
            return {}  # a list of before: some of them have ended
        return {
            process.pid: LISTED
            for device in self.inventory.devices
            for process in device.processes or ()
            if process.kind != "mps"
        }

    def close(self) -> None:
        """Let go of NVML, and end the thread if it answers."""
        self._nvml.close()


def without_figures(inventory: Inventory) -> Inventory:
    """Return an inventory without the figures that nobody reads any more."""
    devices = tuple(
        replace(device, utilization_ratio=None, memory_used_bytes=None)
        for device in inventory.devices
    )
    return replace(inventory, devices=devices)
