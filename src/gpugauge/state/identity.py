"""Which device a place of a process is.

A process numbers its devices (CUDA ordinals); cuDeviceGetUuid says which GPU
an ordinal is. What was not seen is looked up in NVML by process; else it is
unknown, and never the first GPU.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpugauge.model.device import Inventory
from gpugauge.model.workload import UNKNOWN
from gpugauge.state.raw import Chunks
from gpugauge.state.slot import ProcessSlot

_DEVICE_KEY = struct.Struct("<II")
_DEVICE = struct.Struct("<16sQII")
_CONTEXT_KEY = struct.Struct("<IIQ")
_CONTEXT = struct.Struct("<IIQQ")
PLAIN_CONTEXT = 0
RECENT_KEPT = 4096


def uuid_text(raw: bytes) -> str:
    """Return the 16 bytes of a CUuuid as NVML writes them, without GPU- or MIG-."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A live context of a process."""

    number: int
    place: int
    created_ns: int
    green: bool


class Identities:
    """UUIDs and contexts of all processes, from the identity maps and NVML."""

    def __init__(self) -> None:
        self._uuids: dict[int, dict[int, str]] = {}
        self._contexts: dict[int, list[ContextRow]] = {}
        self._by_uuid: dict[str, str] = {}
        self._listed: set[tuple[int, str]] = set()
        self._lists_known = False
        self._recent: dict[int, tuple[tuple[str, ...], int]] = {}

    def update(self, devices: Chunks, contexts: Chunks, inventory: Inventory) -> None:
        """Take in one read of the identity maps, and what NVML said last."""
        self._uuids, self._contexts = {}, {}
        for keys, values in devices:
            rows = zip(_DEVICE_KEY.iter_unpack(keys), _DEVICE.iter_unpack(values), strict=True)
            for (number, ordinal), (uuid, _primary, version, _references) in rows:
                if version:
                    self._uuids.setdefault(number, {})[ordinal] = uuid_text(uuid)
        for keys, values in contexts:
            pairs = zip(_CONTEXT_KEY.iter_unpack(keys), _CONTEXT.iter_unpack(values), strict=True)
            for (number, kind, _handle), (context, place, created_ns, _cgroup) in pairs:
                row = ContextRow(context, place, created_ns, kind != PLAIN_CONTEXT)
                self._contexts.setdefault(number, []).append(row)
        self._by_uuid, self._listed = {}, set()
        self._lists_known = bool(inventory.devices) and not inventory.error
        for device in inventory.devices:
            self._by_uuid[device.uuid.split("-", 1)[-1].lower()] = device.uuid
            if device.processes is None:
                self._lists_known = False
                continue
            for process in device.processes:
                self._listed.add((process.pid, device.uuid))

    def saw(self, inventory: Inventory, now_ns: int) -> None:
        """Take in what NVML said at `now_ns`: which processes are on which devices."""
        listed: dict[int, list[str]] = {}
        for device in inventory.devices:
            for process in device.processes or ():
                listed.setdefault(process.pid, []).append(device.uuid)
        for pid, uuids in listed.items():
            self._recent[pid] = (tuple(uuids), now_ns)
        for pid in list(self._recent)[: max(0, len(self._recent) - RECENT_KEPT)]:
            del self._recent[pid]

    def gpu_uuid(self, slot: ProcessSlot, place: int) -> str:
        """Return the UUID of a place of a process, or "unknown"."""
        raw = self._uuids.get(slot.number, {}).get(place)
        if raw is not None:
            if not self._by_uuid:  # NVML never answered: nothing contradicts the process
                return f"GPU-{raw}"
            return self._by_uuid.get(raw, UNKNOWN)
        listed, seen_ns = self._recent.get(slot.pid, ((), 0))
        # An answer from before its first call is about another process of this pid.
        if len(listed) == 1 and seen_ns >= slot.first_call_ns:
            return listed[0]
        return UNKNOWN

    def contexts(self, number: int) -> Iterable[ContextRow]:
        """Return the live contexts of a process."""
        return self._contexts.get(number, ())

    def contexts_by_place(self, number: int) -> Mapping[int, int]:
        """Return how many live contexts a process has, by place; green ones apart: not counted."""
        found: dict[int, int] = {}
        for row in self._contexts.get(number, ()):
            if not row.green:
                found[row.place] = found.get(row.place, 0) + 1
        return found

    def listed(self, pid: int, gpu_uuid: str) -> bool | None:
        """Return whether NVML lists the process on the device; None where NVML cannot say."""
        if not self._lists_known:
            return None
        return (pid, gpu_uuid) in self._listed

    def knows_device(self, gpu_uuid: str) -> bool:
        """Return whether NVML has this device."""
        return gpu_uuid in self._by_uuid.values()
