"""What one tick costs the agent, by rows, processes and what changed. See README.md.

Usage: python -m benchmarks.tick
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from dataclasses import dataclass, replace

from gpugauge.agent.reader import Reader
from gpugauge.agent.runner import spare_garbage_collection
from gpugauge.agent.tracer import Tracer
from gpugauge.ebpf.layout import Layout
from gpugauge.model.abi import STREAM_FIRST, Family, Slot
from gpugauge.model.device import Device, DeviceProcess, Inventory
from gpugauge.model.workload import Owner, Scope
from gpugauge.settings import Settings
from gpugauge.state.facts import AgentFacts, Facts, Origin
from gpugauge.state.raw import RawTick
from gpugauge.state.state import State
from gpugauge.vendors import VENDORS

ENTRIES = {"thread_counts": 16384, "threads": 16384}
DEVICES = 8
CALLED = (Slot.LAUNCH, Slot.SYNCHRONIZE, Slot.COPY_HTOD, Slot.COPY_DTOH, Slot.ALLOCATE)
MS = 1e6
TARGET_LOAD, TARGET_PERCENT = (100, 2_000), 0.5
AGENT = AgentFacts(
    attach_mode="session", probes={}, libraries=1, unprobed_processes={}, probe_cost_ns=None,
    tick_ns=0, tick_late=0, bpf_memory_bytes=0, history_bytes=0, cpu_ns=0, rss_bytes=0,
    pods_error="", unresolved={}, ready=True,
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """A node under load."""

    processes: int
    rows: int


class Node:
    """Maps of the real programs, filled as if that many threads had called."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.tracer = Tracer(Settings(), map_entries=ENTRIES)
        self.layout: Layout = self.tracer.loaded.layout
        self.maps = self.tracer.loaded.maps
        self.reader = Reader(self.tracer.loaded)
        self.chance = random.Random(7)
        self.rows: list[tuple[bytes, bytearray]] = []
        self.kept: dict[int, bytearray] = {}
        self._slot_bytes = self.layout.size("slot_counts")
        self._calls_at = self.layout.offset("counts_row", "counts") + self.layout.offset(
            "counts", "slots[0].calls"
        )
        self._processes()
        self._threads()

    def _put(self, data: bytearray, name: str, path: str, value: int, size: int = 8) -> None:
        at = self.layout.offset(name, path)
        data[at : at + size] = value.to_bytes(size, "little")

    def _processes(self) -> None:
        memory = self.maps["processes"].memory(writable=True)
        size = self.layout.size("process")
        step = size + 7 & ~7
        now_ns = time.monotonic_ns()
        for at in range(self.load.processes):
            data = bytearray(size)
            number, device = at + 1, at % DEVICES
            self._put(data, "process", "number", number, 4)
            self._put(data, "process", "tgid", 100_000 + at, 4)
            self._put(data, "process", "cgroup_id", at + 1)
            self._put(data, "process", "first_call_ns", now_ns - 10**10)
            self._put(data, "process", f"places[{device}].state", 7 << 32 | STREAM_FIRST)
            self._put(data, "process", f"places[{device}].drained_ns", now_ns - 10**9)
            self._put(data, "process", f"places[{device}].contexts", 1, 4)
            memory[at * step : at * step + size] = bytes(data)
            self.maps["contexts"].update(
                struct.pack("<IIQ", number, 0, 0x1000 + at),
                struct.pack("<IIQQ", 1, device, now_ns, at + 1),
            )
            self.maps["devices"].update(
                struct.pack("<II", number, device),
                struct.pack("<16sQII", device.to_bytes(16, "big"), 0, 2, 1),
            )
            for family in (Family.DEVICE, Family.POOL, Family.HOST):
                self.maps["memories"].update(
                    struct.pack("<IHH", number, 1, family),
                    struct.pack("<7QII", 1 << 20, 1 << 21, 7, 3, 0, 0, 0, device, 0),
                )
        memory.release()

    def _threads(self) -> None:
        for at in range(self.load.rows):
            number = at % self.load.processes + 1
            tid = 200_000 + at
            thread = bytearray(self.layout.size("thread"))
            self._put(thread, "thread", "process_number", number, 4)
            self._put(thread, "thread", "tgid", 100_000 + number - 1, 4)
            self._put(thread, "thread", "hits", 1000)
            self.maps["threads"].update(struct.pack("<I", tid), bytes(thread))
            row = bytearray(self.layout.size("counts_row"))
            self._put(row, "counts_row", "process_number", number, 4)
            key = struct.pack("<II", tid, (number - 1) % DEVICES)
            self.rows.append((key, row))
        self.fill()

    def fill(self) -> None:
        """Let every thread have called."""
        for key, row in self.rows:
            self._call(row, 0)
            self.maps["thread_counts"].update(key, bytes(row))

    def _call(self, rows: bytearray, start: int) -> None:
        for slot in CALLED:
            at = start + self._calls_at + slot * self._slot_bytes
            calls = int.from_bytes(rows[at : at + 8], "little")
            rows[at : at + 8] = (calls + self.chance.randrange(1, 1000)).to_bytes(8, "little")

    def changed(self, raw: RawTick, share: float) -> RawTick:
        """Return a read in which a share of all threads made calls of five kinds.

        Not by writing to the map: that puts a row at another place in it, as the programs,
        which add to rows where they lie, do not.
        """
        size = self.layout.size("counts_row")
        chunks = []
        for at, (keys, values) in enumerate(raw.thread_counts):
            rows = self.kept.get(at) or bytearray(values)
            self.kept[at] = rows
            for start in range(0, len(rows), size):
                if self.chance.random() < share:
                    self._call(rows, start)
            chunks.append((keys, bytes(rows)))
        return replace(raw, thread_counts=tuple(chunks))

    def facts(self) -> Facts:
        """Return what a tick takes in beside the maps: a pod a process, NVML with all."""
        devices = tuple(
            Device(
                index=at,
                uuid=f"GPU-{uuid_of(at)}",
                model="",
                pci_bus_id="",
                memory_total_bytes=None,
                memory_used_bytes=None,
                memory_reserved_bytes=None,
                utilization_ratio=None,
                compute_mode="",
                processes=tuple(
                    DeviceProcess(pid=100_000 + number, memory_held_bytes=1 << 20)
                    for number in range(at, self.load.processes, DEVICES)
                ),
            )
            for at in range(DEVICES)
        )
        return Facts(
            time_unix_ns=time.time_ns(),
            node="node",
            linux_version="",
            inventory=Inventory(devices, "", ""),
            owner_of=lambda pid, _cgroup: Owner(Scope.POD, "team", f"pod-{pid}", "main"),
            origin_of=lambda _pid: Origin(),
            gone=frozenset(),
            hosts=(),
            entitlements=(),
            agent=AGENT,
        )

    def close(self) -> None:
        """Free the maps."""
        self.reader.close()
        self.tracer.close()


def uuid_of(ordinal: int) -> str:
    """Return the UUID of a device, as NVML writes it."""
    text = ordinal.to_bytes(16, "big").hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def measure(load: Load, share: float, ticks: int) -> tuple[float, float]:
    """Return the least CPU time of reading the maps and of the state, in ns."""
    node = Node(load)
    try:
        state = State(
            node.layout,
            symbols=node.tracer.symbols,
            known_codes=frozenset(VENDORS[0].results),
            retire_ns=10**12,
        )
        spare_garbage_collection()
        reading, counting = [], []
        for _ in range(ticks):
            facts = node.facts()
            began = time.thread_time_ns()
            raw = node.reader.read()
            reading.append(time.thread_time_ns() - began)
            raw = node.changed(raw, share)
            began = time.thread_time_ns()
            state.tick(raw, facts)
            counting.append(time.thread_time_ns() - began)
        return min(reading[2:]), min(counting[2:])
    finally:
        node.close()


def main(arguments: list[str] | None = None) -> int:
    """Print a table; the exit code is 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=23)
    given = parser.parse_args(arguments)
    missed = False
    print("processes     rows  changed   read, ms  state, ms   both, % of a core at 1 tick/s")
    for processes, rows in ((0, 0), (100, 2_000), (100, 10_000), (1_000, 2_000)):
        for share in (0.0, 0.1, 1.0) if rows else (0.0,):
            read, state = measure(Load(processes, rows), share, given.ticks)
            both = (read + state) / 1e9 * 100
            missed |= (processes, rows) == TARGET_LOAD and both > TARGET_PERCENT
            print(
                f"{processes:9} {rows:8} {share:8.0%} {read / MS:10.2f} {state / MS:10.2f}"
                f" {both:10.2f}"
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
