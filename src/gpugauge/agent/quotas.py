"""What each cgroup holds of the BPF maps: bpf/quota.bpf.h charges it, this gives it back."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass

from gpugauge.ebpf.loader import Loaded
from gpugauge.ebpf.syscalls import BpfCallError
from gpugauge.model.abi import QUOTA_COUNT, QuotaKind

_KEY = struct.Struct("<Q")
_ROWS = struct.Struct(f"<{QUOTA_COUNT}Q")
_HELD = struct.Struct(f"<{QUOTA_COUNT}I")


@dataclass(frozen=True, slots=True)
class Holder:
    """What a process held at its end."""

    key: int
    """Of its cgroup's quota."""
    rows: tuple[int, ...]
    """By QuotaKind."""


class Quotas:
    """The agent's side of the quotas."""

    def __init__(self, loaded: Loaded) -> None:
        self._quotas = loaded.maps["quotas"]
        self._refunds = loaded.maps["quota_refunds"]
        layout = loaded.layout
        self._key_at = layout.offset("process", "quota")
        self._rows_at = layout.offset("process", "rows")
        self._refused_at = layout.offset("quota", "refused")
        self._ring_at = layout.offset("quota", "ring_refused")

    def key_of(self, slot: bytes | memoryview) -> int:
        """Return the key of the quota of a process slot."""
        return int(_KEY.unpack_from(slot, self._key_at)[0])

    def holder(self, slot: bytes | memoryview) -> Holder:
        """Return what the process of a slot holds."""
        return Holder(self.key_of(slot), _HELD.unpack_from(slot, self._rows_at))

    def give_back(self, ended: Collection[Holder], live: Collection[int]) -> None:
        """Give back what ended processes held, once their rows are deleted.

        Args:
            ended: The processes.
            live: Keys of the quotas of all others.
        """
        back: dict[int, list[int]] = {}
        for holder in ended:
            rows = back.setdefault(holder.key, [0] * QUOTA_COUNT)
            rows[:] = [a + b for a, b in zip(rows, holder.rows, strict=True)]
        for key, rows in back.items():
            if key in live:
                self._add(key, rows)
            else:
                # A process of this cgroup that comes now begins anew: it is charged too little.
                self._quotas.delete(_KEY.pack(key))
                self._refunds.delete(_KEY.pack(key))

    def refused(self) -> dict[int, dict[str, int]]:
        """Return updates that were refused, by cgroup and what was to be held."""
        found: dict[int, dict[str, int]] = {}
        for keys, values, count in self._quotas.batch():
            for i in range(count):
                (key,) = _KEY.unpack_from(keys, i * _KEY.size)
                at = i * self._quotas.value_size
                refused = _ROWS.unpack_from(values, at + self._refused_at)
                row = {kind.name.lower(): refused[kind] for kind in QuotaKind if refused[kind]}
                (ring,) = _KEY.unpack_from(values, at + self._ring_at)
                if ring:
                    row["ring"] = ring
                if row:
                    found[key] = row
        return found

    def _add(self, key: int, rows: list[int]) -> None:
        name = _KEY.pack(key)
        before = self._refunds.lookup(name)
        if before is not None:
            rows = [a + b for a, b in zip(rows, _ROWS.unpack(before), strict=True)]
        try:
            self._refunds.update(name, _ROWS.pack(*rows))
        except BpfCallError:
            return  # no room: this cgroup gets less than its share, nobody gets more
