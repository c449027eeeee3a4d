"""What a context costs is learned from before the first allocation, and from nothing else."""

from __future__ import annotations

import struct
from dataclasses import replace

from gpugauge.model.abi import Family
from gpugauge.model.device import DeviceProcess, Inventory
from gpugauge.state.context_cost import ContextCosts
from tests.support.snapshots import GPU_A, device

PID, NUMBER = 4211, 7


def inventory(held: int | None) -> Inventory:
    listed = (DeviceProcess(pid=PID, memory_held_bytes=held),)
    return Inventory((replace(device(), processes=listed),), "580", "13.0")


def rows(*families: Family, number: int = NUMBER) -> tuple[tuple[bytes, bytes], ...]:
    keys = b"".join(struct.pack("<IHH", number, 1, family) for family in families)
    return ((keys, b""),) if keys else ()


def test_what_is_held_before_the_first_allocation_is_the_context() -> None:
    costs = ContextCosts()
    costs.learn(inventory(1009), rows(), {PID: NUMBER})
    costs.learn(inventory(2003), rows(Family.HOST, Family.HOST_REGISTERED), {PID: NUMBER})
    costs.learn(inventory(900_001), rows(Family.DEVICE), {PID: NUMBER})
    assert costs.of(NUMBER, GPU_A) == 2003


def test_allocations_of_another_process_do_not_matter() -> None:
    costs = ContextCosts()
    costs.learn(inventory(1009), rows(Family.POOL, number=NUMBER + 1), {PID: NUMBER})
    assert costs.of(NUMBER, GPU_A) == 1009


def test_unknown_stays_unknown() -> None:
    costs = ContextCosts()
    costs.learn(inventory(None), rows(), {PID: NUMBER})
    costs.learn(inventory(1009), rows(), {})
    costs.learn(inventory(1009), rows(Family.ARRAY), {PID: NUMBER})
    assert costs.of(NUMBER, GPU_A) is None
