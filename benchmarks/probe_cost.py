"""What a probe adds to one call, in nanoseconds and as ratios within one run.

    python -m benchmarks.probe_cost [session|multi|perf ...]

Method: README.md. Needs root and the compiled BPF objects (`make bpf`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gpugauge.ebpf import features, objects_file
from gpugauge.ebpf.attachment import Mode, ProgramSet
from gpugauge.ebpf.links import attach_raw_tracepoint
from gpugauge.ebpf.linux_layout import thread_count_offsets
from gpugauge.ebpf.loader import Loaded, load
from gpugauge.ebpf.proof import measure
from gpugauge.model import abi
from gpugauge.vendors import VENDORS
from gpugauge.vendors.cookie import pack

ROUNDS = 7
FUNCTIONS = ("cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cuStreamQuery")
ENTRY_TARGET, PAIR_TARGET = 1.4, 2.5
EMPTY = {Mode.SESSION: "multi_empty", Mode.MULTI: "multi_empty", Mode.PERF: "perf_empty"}
COUNTING = {
    Mode.SESSION: ("multi_entry_count", "session_count"),
    Mode.MULTI: ("multi_entry_count", "multi_return_count"),
    Mode.PERF: ("perf_entry_count", "perf_return_count"),
}
REAL = {
    Mode.SESSION: ("call_session", "call_session"),
    Mode.MULTI: ("enter_multi", "leave_multi"),
    Mode.PERF: ("enter_perf", "leave_perf"),
}


@dataclass
class Row:
    """One way of probing: the least that was seen in all rounds, by entry shape."""

    name: str
    programs: ProgramSet
    entry_cookie: int
    pair_cookie: int | None
    """None: entry alone."""
    entry_ns: dict[str, float] = field(default_factory=dict)
    pair_ns: dict[str, float] = field(default_factory=dict)

    def once(self, mode: Mode) -> None:
        for cost in measure(mode, self.programs, cookie=self.entry_cookie, returns=False):
            least(self.entry_ns, cost.shape, cost.entry_ns)
        if self.pair_cookie is None:
            return
        for cost in measure(mode, self.programs, cookie=self.pair_cookie, returns=True):
            assert cost.entry_return_ns is not None
            least(self.pair_ns, cost.shape, cost.entry_return_ns)


def least(found: dict[str, float], shape: str, value: float) -> None:
    found[shape] = min(value, found.get(shape, value))


def programs(loaded: Loaded, mode: Mode, names: tuple[str, str]) -> ProgramSet:
    entry, other = (loaded.programs[name] for name in names)
    return ProgramSet(entry, both=other) if mode is Mode.SESSION else ProgramSet(entry, other)


@contextmanager
def rows(mode: Mode) -> Iterator[list[Row]]:
    """Load everything once; every row is measured in turn, round by round."""
    empty = load(objects_file.read("empty"), {EMPTY[mode], *COUNTING[mode]})
    tracepoints = ("thread_exits", "process_execs")
    real = load(
        objects_file.read("gpu"), {*REAL[mode], *tracepoints}, rodata=thread_count_offsets()
    )
    for slot in range(abi.LIMIT_PROCESSES):
        real.maps["free_slots"].push(slot.to_bytes(4, "little"))
    links = [attach_raw_tracepoint(real.programs[name]) for name in tracepoints]
    numbered = {f.symbol: (row, f) for row, f in VENDORS[0].numbered()}
    found = [
        Row("empty", ProgramSet(empty.programs[EMPTY[mode]]), 0, None),
        Row("counting", programs(empty, mode, COUNTING[mode]), 1, 1),
    ]
    for symbol in FUNCTIONS:
        row, function = numbered[symbol]
        # The cookie says whether a return is wanted, so entry alone has another one.
        alone = pack(replace(function, returns=False), row, 0)
        found.append(Row(symbol, programs(real, mode, REAL[mode]), alone, pack(function, row, 0)))
    try:
        yield found
    finally:
        for link in links:
            link.close()
        real.close()
        empty.close()


def run(mode: Mode) -> bool:
    """Measure and print one mode.

    Returns whether the targets hold on the push site.
    """
    with rows(mode) as found:
        for _ in range(ROUNDS):
            for row in found:
                row.once(mode)
    base = found[0].entry_ns
    print(f"\n{mode.value}: added to one call, ns (ratio to an empty entry program)")
    print(f"  {'':22}" + "".join(f"{title:>22}" for title in TITLES))
    good = True
    for row in found:
        cells = []
        for table in (row.entry_ns, row.pair_ns):
            for shape in ("push", "je"):
                value = table.get(shape)
                cells.append("-" if value is None else f"{value:.0f} ({value / base[shape]:.2f})")
        print(f"  {row.name:22}" + "".join(f"{cell:>22}" for cell in cells))
        if row.name in FUNCTIONS:
            good &= row.entry_ns["push"] <= ENTRY_TARGET * base["push"]
            good &= row.pair_ns["push"] <= PAIR_TARGET * base["push"]
    print(f"  target on push: entry {ENTRY_TARGET}, entry + return {PAIR_TARGET}: "
          f"{'held' if good else 'MISSED'}")  # fmt: skip
    return good


TITLES = ("entry, push", "entry, je", "both, push", "both, je")


def main(arguments: list[str]) -> int:
    """Run the modes named, or the best one offered."""
    modes = [features.choose_mode(each) for each in arguments] or [features.choose_mode()]
    return 0 if all([run(mode) for mode in modes]) else 1  # noqa: C419 - all are run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
