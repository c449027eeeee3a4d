"""A simulated machine whose driver is traced: what the programs counted, beside what happened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpugauge.agent.reader import Reader
from gpugauge.agent.tracer import Tracer
from gpugauge.discovery.inspect import Inspector
from gpugauge.model.abi import Cause, Loss, Slot
from gpugauge.model.device import Inventory
from gpugauge.model.process import OpenCall, Process, ProcessDevice
from gpugauge.model.snapshot import Snapshot
from gpugauge.model.workload import HOST
from gpugauge.settings import Settings
from gpugauge.settings.tree import AttachMode, AttachSettings
from gpugauge.state.facts import AgentFacts, Facts, Origin
from gpugauge.state.requested import OTHER_CODE
from gpugauge.state.state import State
from gpugauge.vendors import VENDORS
from sim import build
from sim.control import create
from sim.machine import Machine
from sim.oracle import Oracle

NOT_READY = 600
MODES = ("session", "multi", "perf")
VENDOR = VENDORS[0]
FUNCTIONS = {function.symbol: function for function in VENDOR.functions}
HOUR_NS = 3600 * 10**9


class OwnMachine(Machine):
    """A simulated machine with a driver file of its own: nobody else's probes are in it."""

    def __init__(self, folder: Path, shape: str = "push", **config: int) -> None:
        made = build.cached(shape)
        own = folder / "driver"
        own.mkdir()
        for each in made.parent.iterdir():
            shutil.copy(each, own / each.name)
        self.library = own / made.name
        self.state = folder / "state"
        self.control = create(self.state, self.library, **config)
        self.oracle = Oracle(self.state)


@dataclass(slots=True)
class Counts:
    """Calls by slot, failed calls by slot and code, bytes by slot."""

    calls: Counter[Slot] = field(default_factory=Counter)
    errors: Counter[tuple[Slot, int]] = field(default_factory=Counter)
    bytes: Counter[Slot] = field(default_factory=Counter)
    launch_threads: int = 0

    def since(self, before: Counts) -> Counts:
        """Return what was added."""
        return Counts(
            self.calls - before.calls,
            self.errors - before.errors,
            self.bytes - before.bytes,
            self.launch_threads - before.launch_threads,
        )


def facts(inventory: Inventory | None = None, **more: object) -> Facts:
    """Return what a tick takes in beside the maps, for processes of the host."""
    values: dict[str, object] = {
        "time_unix_ns": time.time_ns(),
        "node": "node",
        "linux_version": "",
        "inventory": inventory or Inventory((), "", ""),
        "owner_of": lambda _pid, _cgroup: HOST,
        "origin_of": lambda _pid: Origin(),
        "gone": frozenset(),
        "hosts": (),
        "entitlements": (),
        "agent": AGENT,
    }
    return Facts(**(values | more))


AGENT = AgentFacts(
    attach_mode="",
    probes={},
    libraries=1,
    unprobed_processes={},
    probe_cost_ns=None,
    tick_ns=0,
    tick_late=0,
    bpf_memory_bytes=0,
    history_bytes=0,
    cpu_ns=0,
    rss_bytes=0,
    pods_error="",
    unresolved={},
    ready=True,
)


class Traced:
    """A machine and what gpugauge reads of it."""

    def __init__(self, machine: OwnMachine, tracer: Tracer) -> None:
        self.machine = machine
        self.tracer = tracer
        self.reader = Reader(tracer.loaded)
        self.seen: dict[tuple[int, int], Process] = {}
        self.state = State(
            tracer.loaded.layout,
            symbols=tracer.symbols,
            known_codes=frozenset(VENDOR.results),
            retire_ns=HOUR_NS,
        )

    @property
    def oracle(self) -> Oracle:
        """What really happened."""
        return self.machine.oracle

    @property
    def traced_symbols(self) -> frozenset[str]:
        """The functions that are probed in this mode."""
        core = self.tracer.mode.value == "perf"
        return frozenset(f.symbol for f in VENDOR.functions if f.core or not core)

    def attach(self, path: Path | None = None) -> None:
        """Put probes into the library of the machine, or another one."""
        inspection = Inspector(VENDOR).inspect(str(path or self.machine.library))
        self.tracer.attach(inspection.library)

    def tick(self, **more: object) -> Snapshot:
        """Read once."""
        snapshot = self.state.tick(self.reader.read(), facts(**more))
        # The snapshot that tells the end of a process is the last that has it.
        self.seen |= {(each.pid, each.number): each for each in snapshot.processes}
        return snapshot

    def losses(self) -> dict[Loss, int]:
        """Return the loss counters that moved; an event that was not sent loses no count."""
        found = {loss: n for loss, n in self.tick().agent.losses.items() if n}
        found.pop(Loss.RING_LIMITED, None)
        return found

    def process(self, pid: int) -> Process:
        """Read once and return the newest process of this pid."""
        self.tick()
        return max((each for each in self.seen.values() if each.pid == pid), key=lambda p: p.number)

    def device(self, pid: int) -> ProcessDevice:
        """Read once and return the only device of a process."""
        (device,) = self.process(pid).devices
        return device

    def device_open(self, pid: int) -> Mapping[Cause, OpenCall]:
        """Read once and return the open calls of a process, over all places."""
        return {
            cause: call
            for device in self.process(pid).devices
            for cause, call in device.open_calls.items()
        }

    def counted(self, pids: Iterable[int] | None = None) -> Counts:
        """Read once and return the counters of these processes, or all, over all places.

        From the totals and not the snapshot, which leaves out calls that are on no device.
        """
        self.tick()
        wanted = None if pids is None else frozenset(pids)
        found = Counts()
        processes = self.state.processes
        for number, process in processes.by_number.items():
            if wanted is not None and process.slot.pid not in wanted:
                continue
            for wide in processes.counts.of(number).values():
                lanes = processes.counts.lanes.values(wide)
                for slot, operation in processes.reading.operations(lanes).items():
                    found.calls[slot] += operation.calls
                    found.bytes[slot] += operation.bytes
                found.launch_threads += processes.reading.launch_threads(lanes)
        for process_number, codes in self._errors().items():
            process = processes.by_number.get(process_number)
            if process and (wanted is None or process.slot.pid in wanted):
                found.errors.update(codes)
        return found

    def _errors(self) -> dict[int, Counter[tuple[Slot, int]]]:
        from gpugauge.state.requested import read_errors

        found: dict[int, Counter[tuple[Slot, int]]] = {}
        rows = read_errors(self.reader.read().errors, frozenset(VENDOR.results))
        for (number, _place), codes in rows.items():
            found.setdefault(number, Counter()).update(codes)
        return found

    def called(self, pids: Iterable[int] | None = None) -> Counter[tuple[str, int]]:
        """Return the oracle's ended calls of these processes, or all, by (symbol, code)."""
        wanted = None if pids is None else frozenset(pids)
        found: Counter[tuple[str, int]] = Counter()
        for process in self.oracle.processes():
            if wanted is None or process.pid in wanted:
                for symbol, calls in process.calls.items():
                    found.update({(symbol, code): n for code, n in calls.by_code.items()})
        return found

    def truth(self, pids: Iterable[int] | None = None) -> Counts:
        """Return the oracle's counts in terms of the function table."""
        return self.expected(self.called(pids))

    def expected(
        self, called: Counter[tuple[str, int]], moved: Mapping[str, Slot] | None = None
    ) -> Counts:
        """Return calls by (symbol, code) in terms of the function table.

        Args:
            called: The calls.
            moved: Slots of calls whose arguments tell another than the table's.
        """
        traced = self.traced_symbols
        found = Counts()
        for (symbol, code), calls in called.items():
            if symbol not in traced:
                continue
            function = FUNCTIONS[symbol]
            slot = (moved or {}).get(symbol, function.slot)
            if slot is Slot.POLL_READY and code == NOT_READY:
                found.calls[Slot.POLL_NOT_READY] += calls
                continue
            found.calls[slot] += calls
            if code and function.returns:
                known = code if code in VENDOR.results else OTHER_CODE
                found.errors[slot, known] += calls
        return found

    def reap_ended(self) -> int:
        """Reap processes that ended, as the agent does; return how many."""
        ended = self.state.ended()
        self.reader.reap({p.slot.number: p.slot_index for p in ended})
        for process in ended:
            self.state.reap(process.slot.number)
        return len(ended)

    def close(self) -> None:
        """Take the probes off."""
        self.reader.close()
        self.tracer.close()
        self.machine.close()


@contextmanager
def traced(
    folder: Path,
    mode: str = "auto",
    shape: str = "push",
    *,
    attach: bool = True,
    map_entries: Mapping[str, int] | None = None,
    **config: int,
) -> Iterator[Traced]:
    """Yield a machine whose driver is traced.

    Args:
        folder: Where its files are.
        mode: How probes are attached.
        shape: The entries of the simulated driver.
        attach: False leaves attaching to the caller.
        map_entries: Sizes of BPF maps, to fill them.
        config: Settings of the simulated machine.
    """
    machine = OwnMachine(folder, shape, **config)
    settings = Settings(attach=AttachSettings(mode=AttachMode(mode)))
    made = Traced(machine, Tracer(settings, map_entries=map_entries))
    try:
        if attach:
            made.attach()
        yield made
    finally:
        made.close()


SESSION = """
import ctypes, json, os, sys, threading, time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from sim.workloads.driver import Driver
driver = Driver()
call, attempt = driver.call, driver.attempt
function = driver.function("busy_1us")
answer = None
print(os.getpid(), flush=True)
for line in sys.stdin:
    exec(json.loads(line))
    print(json.dumps(answer), flush=True)
"""


class Session:
    """A process on the driver that runs what a test tells it, step by step.

    Its names: driver, call, attempt, function (takes 1 us), and what earlier steps made. What a
    step leaves in `answer` comes back.
    """

    def __init__(self, it: Traced) -> None:
        self._child = it.machine.start([sys.executable, "-c", SESSION], stdin=subprocess.PIPE)
        self.pid = int(self._line())

    def run(self, text: str) -> Any:
        """Run Python text, and return what it left in `answer`."""
        stdin = self._child.stdin
        assert stdin is not None
        stdin.write(json.dumps(text) + "\n")
        stdin.flush()
        return json.loads(self._line())

    def start(self, text: str) -> None:
        """Begin to run text, and do not wait for its end."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(text) + "\n")
        self._child.stdin.flush()

    def end(self) -> None:
        """Let the process end."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        assert self._child.wait(30) == 0

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, f"ended with {self._child.wait(10)}: {self._errors()}"
        return line

    def _errors(self) -> str:
        return self._child.stderr.read() if self._child.stderr else ""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()


def primes(above: int, count: int) -> list[int]:
    """Return so many prime numbers from a number on."""
    found: list[int] = []
    number = above
    while len(found) < count:
        if number > 1 and all(number % each for each in range(2, int(number**0.5) + 1)):
            found.append(number)
        number += 1
    return found


def gone(pid: int) -> bool:
    """Return whether a process is no more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
