"""What a context costs: held for a process that has one, and has requested nothing yet."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from gpugauge.model.device import Inventory
from gpugauge.model.process import HOST_FAMILIES
from gpugauge.state.raw import Chunks

_KEY = struct.Struct("<IHH")
KEPT = 4096


class ContextCosts:
    """Held memory by process number and device, from the time before the first allocation."""

    def __init__(self) -> None:
        self._held: dict[int, dict[str, int]] = {}

    def learn(self, inventory: Inventory, memories: Chunks, numbers: Mapping[int, int]) -> None:
        """Take in a new answer of NVML.

        Args:
            inventory: The answer.
            memories: The map of requested memory, read after the answer: what was
                allocated in between is in it, and its process is left out.
            numbers: Process numbers by pid.
        """
        allocated = {
            number
            for keys, _ in memories
            for number, _context, family in _KEY.iter_unpack(keys)
            if family not in HOST_FAMILIES
        }
        for device in inventory.devices:
            for listed in device.processes or ():
                number = numbers.get(listed.pid)
                held = listed.memory_held_bytes
                if number is not None and held is not None and number not in allocated:
                    self._held.setdefault(number, {})[device.uuid] = held
        for number in list(self._held)[: max(0, len(self._held) - KEPT)]:
            del self._held[number]

    def of(self, number: int, gpu_uuid: str) -> int | None:
        """Return what the context of a process held on a device, or None where not seen."""
        return self._held.get(number, {}).get(gpu_uuid)
